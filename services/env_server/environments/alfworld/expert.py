"""The oracle expert: a short winning plan from any state, with full knowledge of where everything is.

Going anywhere takes one command however far it is, so the length of a plan is decided by which object, which of its
receptacles, which appliance and which destination are chosen: they are tried out, and the shortest plan wins.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations, product

from services.env_server.environments.alfworld.engine import NativeEpisode
from services.env_server.environments.alfworld.facts import Fact
from services.env_server.environments.alfworld.game import Game, State, compile_game
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.alfworld.operators import Operator

_CARRIED = ("isclean", "ishot", "iscool")
"""What is done to an object in the agent's hand, at an appliance."""


@dataclass(frozen=True, slots=True)
class Move:
    """One command: an action of the domain, and things that must be among its arguments."""

    action: str
    things: tuple[int, ...]

    def is_done_by(self, operator: Operator) -> bool:
        """Whether an operator is this move."""
        return operator.schema.name == self.action and set(self.things) <= set(operator.arguments)


@dataclass(frozen=True, slots=True)
class _Sim:
    """As much of the state as planning needs, with the moves that led here."""

    place: int
    held: int | None
    opened: frozenset[int]
    contents: Mapping[int, frozenset[int]]
    """Object → receptacles it is in."""
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """What one way of reaching the goal asks of one object."""

    thing: int
    receptacle: int | None
    """Where it must lie; None where that does not matter."""
    treatments: tuple[str, ...]
    held: bool
    lit_by: tuple[int, int] | None
    """(lamp, place) that must be on, and where the agent must be at the end."""


class Atlas:
    """What never changes in a game, as planning asks for it."""

    def __init__(self, game: Game) -> None:
        """Reads the constant facts of the game."""
        self.game = game
        table = game.table
        self.place_of: dict[int, int] = dict(_pairs(table.constant.get("receptacleatlocation", ())))
        self.openable = frozenset(fact[0] for fact in table.constant.get("openable", ()))
        self.pickupable = frozenset(fact[0] for fact in table.constant.get("pickupable", ()))
        self._object_types = _grouped(table.constant.get("objecttype", ()))
        self._receptacle_types = _grouped(table.constant.get("receptacletype", ()))
        self._can_contain = table.constant.get("cancontain", frozenset())
        self._accepts: dict[int, tuple[int, ...]] = {}
        self._appliances: dict[tuple[str, int], tuple[tuple[str, int], ...]] = {}

    def accepts(self, thing: int) -> tuple[int, ...]:
        """The receptacles that an object may be put into."""
        known = self._accepts.get(thing)
        if known is None:
            kinds = self._object_types.get(thing, ())
            known = self._accepts[thing] = tuple(
                receptacle
                for receptacle in sorted(self.place_of)
                if any(
                    (rtype, otype) in self._can_contain
                    for rtype in self._receptacle_types.get(receptacle, ())
                    for otype in kinds
                )
            )
        return known

    def appliances(self, predicate: str, thing: int) -> tuple[tuple[str, int], ...]:
        """(action, receptacle) of every way to make ``predicate(thing)`` true with the thing in hand."""
        key = (predicate, thing)
        known = self._appliances.get(key)
        if known is None:
            known = self._appliances[key] = tuple(dict.fromkeys(self._find_appliances(predicate, thing)))
        return known

    def _find_appliances(self, predicate: str, thing: int) -> Iterator[tuple[str, int]]:
        for schema in self.game.domain.schemas:
            terms = [e.literal.terms for e in schema.effects if e.literal.positive and e.literal.predicate == predicate]
            for conjunction in schema.preconditions if terms else ():
                for solution in self.game.table.solve(conjunction, {terms[0][0]: thing}):
                    for variable in solution:
                        if solution[variable] in self.place_of:
                            yield schema.name, solution[variable]

    @cached_property
    def knives(self) -> tuple[int, ...]:
        """What one can slice with."""
        table = self.game.table
        found: dict[int, None] = {}
        for schema in self.game.domain.schemas:
            if any(e.literal.predicate == "issliced" for e in schema.effects):
                for conjunction in schema.preconditions:
                    holds = next((x for x in conjunction.literals if x.predicate == "holds"), None)
                    if holds is not None:
                        found.update((solution[holds.terms[-1]], None) for solution in table.solve(conjunction, {}))
        return tuple(found)

    @cached_property
    def wishes(self) -> tuple[tuple[Wish, ...], ...]:
        """Every way to reach the goal, each as wishes about one or two objects."""
        parts = [[self._facts(need) for need, _ in part] for part in self.game.goal_parts]
        ways = (tuple(self._wishes(merged)) for merged in map(_merge, product(*parts)))
        return tuple(dict.fromkeys(way for way in ways if way))

    def _facts(self, bits: int) -> tuple[tuple[str, Fact], ...]:
        return tuple(self.game.table.true_facts(bits))

    def _wishes(self, facts: Sequence[tuple[str, Fact]]) -> Iterator[Wish]:
        lamps = [fact[0] for name, fact in facts if name == "istoggled"]
        place = next((fact[-1] for name, fact in facts if name == "atlocation"), None)
        things = sorted({fact[0] for name, fact in facts if name == "inreceptacle" and fact[0] not in lamps})
        things += [fact[-1] for name, fact in facts if name == "holds" and fact[-1] not in things]
        for thing in things:
            treatments = tuple(name for name, fact in facts if fact == (thing,) and name != "istoggled")
            where = next((f[1] for name, f in facts if name == "inreceptacle" and f[0] == thing), None)
            held = any(name == "holds" and fact[-1] == thing for name, fact in facts)
            lit_by = (lamps[0], place) if lamps and place is not None else None
            yield Wish(thing, where, treatments, held, lit_by)


class Planner:
    """Makes plans for one game."""

    def __init__(self, game: Game) -> None:
        """One planner may serve any number of episodes of the game."""
        self.game = game
        self.atlas = Atlas(game)

    def moves(self, state: State, known: Callable[[int], bool] = lambda receptacle: True) -> tuple[Move, ...] | None:
        """The shortest plan found, using only objects in receptacles that are ``known``; None where there is none."""
        start = self._sim(state, known)
        best: tuple[Move, ...] | None = None
        for way in self.atlas.wishes:
            for order in permutations(way):
                end = self._fulfil(start, state, order)
                if end is not None and (best is None or len(end.moves) < len(best)):
                    best = end.moves
        return best

    def moves_for(self, wishes: Sequence[Wish], state: State, known: Callable[[int], bool]) -> tuple[Move, ...] | None:
        """The plan for some wishes, in their order; None where there is none."""
        end = self._fulfil(self._sim(state, known), state, wishes)
        return None if end is None else end.moves

    def commands(self, state: State, moves: Iterable[Move]) -> list[str]:
        """The moves in the game's own words. A move that turns out to be impossible ends the list."""
        episode = NativeEpisode(self.game)
        episode.state = state
        words = []
        for move in moves:
            command = self.command(episode.state, move)
            if command is None:
                break
            words.append(command)
            episode.step(command)
        return words

    def command(self, state: State, move: Move) -> str | None:
        """The command for a move in this state; None where it is impossible."""
        for command, operator in self.game.view(state).operators.items():
            if move.is_done_by(operator):
                return command
        return None

    def stuck(self, state: State) -> bool:
        """Whether the agent holds something that nothing in the game takes, so that its hand is never free again.

        Games allow it: in some, a teddy bear can be picked up and put down nowhere.
        """
        held = self.holds(state)
        return held is not None and not self.atlas.accepts(held)

    def holds(self, state: State) -> int | None:
        """What the agent holds."""
        held = state.facts & self.game.table.mask_of("holds")
        return self.game.table.decode(held & -held)[1][-1] if held else None

    def place(self, state: State) -> int:
        """Where the agent is."""
        return self.game.table.decode(state.facts & self.game.table.mask_of("atlocation"))[1][-1]

    def contents(self, state: State) -> dict[int, frozenset[int]]:
        """Object → receptacles it is in."""
        table = self.game.table
        facts = (fact for _, fact in table.true_facts(state.facts & table.mask_of("inreceptacle")))
        return {thing: frozenset(receptacles) for thing, receptacles in _grouped(facts).items()}

    def opened(self, state: State) -> frozenset[int]:
        """The receptacles that stand open."""
        table = self.game.table
        return frozenset(fact[0] for _, fact in table.true_facts(state.facts & table.mask_of("opened")))

    def _sim(self, state: State, known: Callable[[int], bool]) -> _Sim:
        contents = {thing: frozenset(filter(known, where)) for thing, where in self.contents(state).items()}
        return _Sim(self.place(state), self.holds(state), self.opened(state), contents)

    def _true(self, state: State, predicate: str, thing: int) -> bool:
        return bool(state.facts & self.game.table.bit(predicate, (thing,)))

    def _fulfil(self, sim: _Sim, state: State, wishes: Sequence[Wish]) -> _Sim | None:
        current: _Sim | None = sim
        for wish in wishes:
            if current is None:
                return None
            missing = [name for name in wish.treatments if not self._true(state, name, wish.thing)]
            current = self._grant(current, state, wish, missing)
        return current

    def _grant(self, sim: _Sim, state: State, wish: Wish, missing: list[str]) -> _Sim | None:
        """The shortest way to what one wish asks; None where an object's whereabouts are not known."""
        here = sim.contents.get(wish.thing, frozenset())
        if "issliced" in missing:
            sliced = self._slice(sim, wish.thing)
            if sliced is None:
                return None
            sim, missing = sliced, [name for name in missing if name != "issliced"]
        in_hand = sim.held == wish.thing
        if not missing and not wish.held and wish.receptacle in here:
            return sim
        best: _Sim | None = None
        for source in [None] if in_hand else sorted(here):
            if source is not None and wish.thing not in self.atlas.pickupable:
                continue
            end = self._carry(sim if source is None else self._fetch(sim, wish.thing, source), state, wish, missing)
            if end is not None and (best is None or len(end.moves) < len(best.moves)):
                best = end
        return best

    def _carry(self, sim: _Sim | None, state: State, wish: Wish, missing: Sequence[str]) -> _Sim | None:
        """From having the object in hand to what the wish asks."""
        if sim is None:
            return None
        aim = self.atlas.place_of.get(wish.receptacle) if wish.receptacle is not None else None
        for name in missing:
            options = self.atlas.appliances(name, wish.thing)
            if name not in _CARRIED or not options:
                return None
            wanted = (sim.place, aim)
            action, appliance = min(
                options,
                key=lambda x: wanted.index(self.atlas.place_of[x[1]]) if self.atlas.place_of[x[1]] in wanted else 2,
            )
            sim = self._reach(sim, appliance)
            sim = replace(sim, moves=(*sim.moves, Move(action, (wish.thing, appliance))))
        if wish.receptacle is not None and wish.receptacle not in sim.contents.get(wish.thing, frozenset()):
            if wish.receptacle not in self.atlas.accepts(wish.thing):
                return None
            sim = self._stow(sim, wish.thing, wish.receptacle)
        if wish.lit_by is not None:
            return self._light(sim, state, *wish.lit_by)
        return sim

    def _light(self, sim: _Sim, state: State, lamp: int, place: int) -> _Sim | None:
        """Get the lamp lit, at the place where it stands."""
        stands = [r for r in sorted(sim.contents.get(lamp, ())) if self.atlas.place_of.get(r) == place]
        if not stands:
            return None
        sim = self._reach(sim, stands[0])
        if not self._true(state, "istoggled", lamp):
            sim = replace(sim, moves=(*sim.moves, Move("toggleobject", (lamp,))))
        return sim

    def _slice(self, sim: _Sim, thing: int) -> _Sim | None:
        """Slice the object where it lies, and have the hand free again."""
        where = sim.contents.get(thing, frozenset())
        best: _Sim | None = None
        for knife in self.atlas.knives:
            sources = [None] if sim.held == knife else sorted(sim.contents.get(knife, ()))
            for source, receptacle in product(sources, sorted(where)):
                ready = sim if source is None else self._fetch(sim, knife, source)
                if ready is None:
                    continue
                ready = self._reach(ready, receptacle)
                ready = replace(ready, moves=(*ready.moves, Move("sliceobject", (thing, knife))))
                freed = self._free_hand(ready)
                if freed is not None and (best is None or len(freed.moves) < len(best.moves)):
                    best = freed
        return best

    def _fetch(self, sim: _Sim, thing: int, receptacle: int) -> _Sim | None:
        freed = self._free_hand(sim)
        if freed is None:
            return None
        sim = self._open(self._reach(freed, receptacle), receptacle)
        left = sim.contents.get(thing, frozenset()) - {receptacle}
        moves = (*sim.moves, Move("pickupobject", (thing, receptacle)))
        return replace(sim, held=thing, contents={**sim.contents, thing: left}, moves=moves)

    def _stow(self, sim: _Sim, thing: int, receptacle: int) -> _Sim:
        sim = self._open(self._reach(sim, receptacle), receptacle)
        there = sim.contents.get(thing, frozenset()) | {receptacle}
        moves = (*sim.moves, Move("putobject", (thing, receptacle)))
        return replace(sim, held=None, contents={**sim.contents, thing: there}, moves=moves)

    def _free_hand(self, sim: _Sim) -> _Sim | None:
        """Put down what is held, as near as possible."""
        if sim.held is None:
            return sim
        options = self.atlas.accepts(sim.held)
        if not options:
            return None

        def cost(receptacle: int) -> tuple[bool, bool]:
            closed = receptacle in self.atlas.openable and receptacle not in sim.opened
            return self.atlas.place_of[receptacle] != sim.place, closed

        return self._stow(sim, sim.held, min(options, key=cost))

    def _reach(self, sim: _Sim, receptacle: int) -> _Sim:
        place = self.atlas.place_of[receptacle]
        if place == sim.place:
            return sim
        return replace(sim, place=place, moves=(*sim.moves, Move("gotolocation", (receptacle, place))))

    def _open(self, sim: _Sim, receptacle: int) -> _Sim:
        if receptacle not in self.atlas.openable or receptacle in sim.opened:
            return sim
        moves = (*sim.moves, Move("openobject", (receptacle,)))
        return replace(sim, opened=sim.opened | {receptacle}, moves=moves)


def plan(game: Game, state: State) -> list[str]:
    """A short list of commands that wins from this state; empty when it is won, or when no plan is found."""
    if game.won(state):
        return []
    planner = Planner(game)
    return planner.commands(state, planner.moves(state) or ())


def plan_from_start(source: GameSource) -> list[str]:
    """A short list of commands that wins a game; empty when no plan is found."""
    game = compile_game(source)
    return plan(game, game.initial)


def _pairs(facts: Iterable[Fact]) -> Iterator[tuple[int, int]]:
    return ((first, second) for first, second in sorted(facts))


def _grouped(facts: Iterable[Fact]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for first, second in facts:
        groups.setdefault(first, []).append(second)
    return groups


def _merge(parts: Sequence[Sequence[tuple[str, Fact]]]) -> list[tuple[str, Fact]]:
    return list(dict.fromkeys(fact for part in parts for fact in part))
