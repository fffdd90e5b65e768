"""The searching expert: plays like a person who does not know where things are, and looks in likely places first.

The wandering one knows homes no better than the game: to it, every place is as likely as any other.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import replace

from services.env_server.environments.alfworld.expert import Move, Planner
from services.env_server.environments.alfworld.game import State
from services.env_server.environments.alfworld.operators import Operator
from services.env_server.environments.alfworld.whereabouts import Rates, whereabouts

LOOKING = ("gotolocation", "openobject", "examinereceptacle")
"""Actions whose answer lists what a receptacle holds, if it is open."""

_RARE = 0.002
"""The rate for a receptacle in which such a thing was never seen: still worth a look when all else failed."""

_WHIM = 0.6
"""How far chance reorders likely places: the scale of the noise on the logarithm of their rates."""


class Searcher:
    """Chooses moves from what has been seen. Holds nothing about an episode: what was seen is passed in."""

    def __init__(self, planner: Planner, seed: int, knows_homes: bool = True) -> None:
        """``seed`` decides the order in which places of about the same likelihood are searched.

        Without ``knows_homes`` all places are.
        """
        self._planner = planner
        self._atlas = planner.atlas
        self._seed = seed
        self._rates: Rates = whereabouts() if knows_homes else {}

    def sees(self, operator: Operator, after: State) -> frozenset[int]:
        """The receptacles whose contents the answer to an action tells."""
        if operator.schema.name not in LOOKING:
            return frozenset()
        opened = self._planner.opened(after)
        named = (thing for thing in operator.arguments if thing in self._atlas.place_of)
        return frozenset(r for r in named if r not in self._atlas.openable or r in opened)

    def moves(self, state: State, seen: frozenset[int]) -> tuple[Move, ...] | None:
        """What to do next, for one or more commands; None when nothing is left to try."""
        plan = self._planner.moves(state, seen.__contains__)
        if plan is None:
            plan = self._part_of_the_task(state, seen) or self._look_further(state, seen)
        return plan or None

    def _part_of_the_task(self, state: State, seen: frozenset[int]) -> tuple[Move, ...] | None:
        """What can be done towards the goal with the things found so far."""
        best: tuple[int, int, tuple[Move, ...]] | None = None
        for way in self._atlas.wishes:
            # Without the lamp, having the object in hand is a good start.
            wishes = [(replace(wish, lit_by=None),) for wish in way]
            parts = [self._planner.moves_for(wish, state, seen.__contains__) for wish in wishes]
            granted = [part for part in parts if part is not None]
            left = min((part for part in granted if part), key=len, default=())
            if granted and (best is None or (-len(granted), len(left)) < best[:2]):
                best = (-len(granted), len(left), left)
        # The best may ask for no moves: what can be done is done.
        return best[2] if best else None

    def _look_further(self, state: State, seen: frozenset[int]) -> tuple[Move, ...] | None:
        kinds = self._wanted_kinds(state)
        opened, place = self._planner.opened(state), self._planner.place(state)
        unseen = [r for r in sorted(self._atlas.place_of) if r not in seen]
        if not unseen:
            return None

        def closed(receptacle: int) -> bool:
            return receptacle in self._atlas.openable and receptacle not in opened

        # Having come to a closed receptacle, one opens it before going elsewhere.
        here = [r for r in unseen if self._atlas.place_of[r] == place]
        target = max(here or unseen, key=lambda r: self._promise(r, kinds, closed(r)))
        if here and self._promise(target, kinds, closed(target)) < math.log(_RARE):
            target = max(unseen, key=lambda r: self._promise(r, kinds, closed(r)))
        if self._atlas.place_of[target] != place:
            return (Move("gotolocation", (target,)),)
        return (Move("openobject" if closed(target) else "examinereceptacle", (target,)),)

    def _wanted_kinds(self, state: State) -> frozenset[str]:
        """What to look for: the objects of the task, then the lamp."""
        held = self._planner.holds(state)
        wishes = [wish for way in self._atlas.wishes for wish in way]
        if any(wish.thing == held and wish.lit_by for wish in wishes):
            return frozenset(self._kind(wish.lit_by[0]) for wish in wishes if wish.lit_by)
        return frozenset(self._kind(wish.thing) for wish in wishes)

    def _kind(self, thing: int) -> str:
        return self._planner.game.things[thing].name.split(" ")[0]

    def _promise(self, receptacle: int, kinds: Iterable[str], closed: bool) -> float:
        """The logarithm of how likely a look is to succeed per command spent, with a whim of the seed's."""
        name = self._planner.game.things[receptacle].name
        rate = max((self._rates.get(kind, {}).get(name.split(" ")[0], 0.0) for kind in kinds), default=0.0)
        digest = hashlib.blake2b(f"{self._seed}/{self._planner.game.source.task_id}/{name}".encode(), digest_size=8)
        chance = (int.from_bytes(digest.digest(), "big") + 1) / (2**64 + 2)
        return math.log(max(rate, _RARE) / (2 if closed else 1)) - _WHIM * math.log(-math.log(chance))


class Guide:
    """What an expert would do next, kept up to date as an episode goes its own way."""

    __slots__ = ("_pending", "_planner", "_searcher", "_seen")

    def __init__(self, planner: Planner, searcher: Searcher | None) -> None:
        """The oracle where there is no ``searcher``."""
        self._planner = planner
        self._searcher = searcher
        self._seen: frozenset[int] = frozenset()
        self._pending: tuple[Move, ...] = ()

    def clone(self) -> "Guide":
        """An independent copy; everything it remembers is immutable."""
        twin = Guide(self._planner, self._searcher)
        twin._seen, twin._pending = self._seen, self._pending
        return twin

    def follow(self, operator: Operator, before: State, after: State) -> None:
        """Take note of an action that was possible."""
        if self._searcher is not None:
            self._seen |= self._searcher.sees(operator, after)
        if self._pending and self._pending[0].is_done_by(operator):
            self._pending = self._pending[1:]
        elif self._planner.game.true_state(before) != self._planner.game.true_state(after):
            self._pending = ()

    def action(self, state: State) -> str | None:
        """The next command; None when the goal is reached, or when there is no way left to reach it."""
        if self._planner.game.won(state):
            return None
        command = self._planner.command(state, self._pending[0]) if self._pending else None
        if command is None:
            found = None if self._searcher is None else self._searcher.moves(state, self._seen)
            self._pending = found or self._planner.moves(state) or ()
            command = self._planner.command(state, self._pending[0]) if self._pending else None
        return command
