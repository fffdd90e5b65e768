"""Episodes on an env server, as both kinds of gymnasium environment need them."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gagpo.environment_client import EnvironmentClient, EnvironmentServerError
from shared.schemas.environment import InfoValue, Observation, SessionRequest, StateKeyKind

_CHOICES = ("task_id", "split", "index")

_NO_URL = (
    "url: names the env server to play on. Start one with `python -m services.env_server --port 8001` and pass "
    'url="http://127.0.0.1:8001", or let Python have one: `with gagpo.envs.local_server("{environment}") as url:`'
)


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """Which task an episode is of. Without an index, the seed draws one of the split."""

    task_id: str | None = None
    split: str | None = None
    index: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> Self:
        """What the ``options`` of a reset choose. Raises `ValueError` for an option that there is not."""
        given = options or {}
        if unknown := sorted(set(given) - set(_CHOICES)):
            raise ValueError(f"options.{unknown[0]}: a reset knows {', '.join(_CHOICES)}")
        return cls(**given)


class Sessions:
    """Opens and forgets episodes of one environment."""

    def __init__(
        self,
        url: str | None,
        environment: str,
        split: str | None,
        max_steps: int | None,
        state_key: str,
        options: Mapping[str, InfoValue] | None,
        patience_s: float,
    ) -> None:
        """Looks whether the server has the environment and the split; by default the split is its first.

        Raises `EnvironmentServerError`, and `ValueError` for an argument that is wrong.
        """
        if url is None:
            raise ValueError(_NO_URL.format(environment=environment))
        self.state_key = StateKeyKind(state_key)
        with EnvironmentClient(url) as impatient:  # a wrong address is told at once
            served = {one.name: one for one in impatient.environments()}
        if environment not in served:
            raise EnvironmentServerError(
                f"environment = {environment!r}: the env server at {url} has {', '.join(sorted(served)) or 'none'}"
            )
        self.description = served[environment]
        self.split = split if split is not None else next(iter(self.description.splits))
        if self.split not in self.description.splits:
            raise ValueError(f"split = {split!r}: {environment} has {', '.join(self.description.splits)}")
        self.max_steps = max_steps
        self.options = dict(options or {})
        self._url = url
        self.client = EnvironmentClient(url, patience_s=patience_s)

    def request(self, choice: TaskChoice, seed: int | None, random: np.random.Generator) -> SessionRequest:
        """How to open an episode of the chosen task. ``seed`` draws it, or ``random`` does where there is none.

        The same seed is the same task on every machine, for the server's own clients as well.
        """
        named = choice.task_id is not None or choice.index is not None
        drawn = None if named else seed if seed is not None else int(random.integers(2**31))
        return SessionRequest(
            environment=self.description.name,
            task_id=choice.task_id,
            split=choice.split or (self.split if choice.task_id is None else None),
            index=choice.index,
            seed=drawn,
            max_steps=self.max_steps,
            state_key=self.state_key,
            options=self.options,
        )

    def open(self, requests: Sequence[SessionRequest]) -> list[Observation]:
        """Open an episode for each request; equal ones are one group, from one load of their task."""
        places: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(request.model_dump_json(), []).append(place)
        opened: dict[int, Observation] = {}
        for group in places.values():
            request = requests[group[0]].model_copy(update={"count": len(group)})
            opened |= dict(zip(group, self.client.open(request), strict=True))
        return [opened[place] for place in range(len(requests))]

    def forget(self, session_ids: Iterable[str]) -> None:
        """Delete sessions on the server. One that is gone already is as good."""
        _forget(self.client, session_ids)

    def close(self, session_ids: Iterable[str]) -> None:
        """Delete the last sessions and close the connections."""
        self.client.close()
        # A server that does not answer any more forgets them by itself, when their time is up.
        with EnvironmentClient(self._url) as impatient, contextlib.suppress(EnvironmentServerError):
            _forget(impatient, session_ids)


def _forget(client: EnvironmentClient, session_ids: Iterable[str]) -> None:
    for session_id in session_ids:
        try:
            client.close_session(session_id)
        except EnvironmentServerError as error:
            if error.problem is None or error.problem.type != "/problems/unknown-session":
                raise
