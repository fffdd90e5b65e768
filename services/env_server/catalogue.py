"""What this server serves: environments, splits and tasks, asked once from a worker and kept."""

import hashlib
from collections.abc import Mapping, Sequence

from services.env_server import faults
from services.env_server.worker_protocol import Birth, Catalogue, DrawTask
from shared.schemas.environment import EnvironmentDescription, SessionRequest, TaskPage


class ServedCatalogue:
    """Descriptions and task lists; turns a request into the birth of a session."""

    def __init__(self, catalogue: Catalogue) -> None:
        """``catalogue`` as a worker told it."""
        self.descriptions: dict[str, EnvironmentDescription] = {}
        self._tasks: dict[str, Mapping[str, Sequence[str]]] = {}
        self._drawing: set[str] = set()
        for entry in catalogue.entries:
            description = EnvironmentDescription.model_validate_json(entry.description)
            self.descriptions[description.name] = description
            self._tasks[description.name] = entry.tasks
            if entry.draws:
                self._drawing.add(description.name)

    def description(self, environment: str) -> EnvironmentDescription:
        """One environment. Raises the problem ``unknown-environment``."""
        if environment not in self.descriptions:
            raise faults.unknown_environment(environment, self.descriptions)
        return self.descriptions[environment]

    def page(self, environment: str, split: str, offset: int, limit: int) -> TaskPage:
        """``limit`` tasks of a split from ``offset`` on. Raises ``unknown-environment`` or ``unknown-split``."""
        tasks = self._split(environment, split)
        return TaskPage(tasks=list(tasks[offset : offset + limit]), total=len(tasks), offset=offset)

    def to_draw(self, request: SessionRequest) -> DrawTask | None:
        """What to ask a worker, if the environment itself draws the task of this request.

        Raises ``unknown-environment``, ``unknown-split``, or ``unknown-task`` for a split without tasks.
        """
        self.description(request.environment)
        if request.seed is None or request.split is None or request.environment not in self._drawing:
            return None
        if not self._split(request.environment, request.split):
            raise faults.unknown_index(0, request.split, 0)
        return DrawTask(request.environment, request.split, request.seed, request.options)

    def birth(self, request: SessionRequest) -> Birth:
        """The birth of the sessions asked for. Whether a given ``task_id`` exists is for the environment to say."""
        description = self.description(request.environment)
        return Birth(
            request.environment,
            request.task_id if request.task_id is not None else self._find(request),
            request.options,
            request.max_steps if request.max_steps is not None else description.max_steps,
            request.state_key.value,
            description.data_digest,
            request.true_state,
        )

    def _find(self, request: SessionRequest) -> str:
        split = request.split or ""
        tasks = self._split(request.environment, split)
        index = _draw(request.seed, len(tasks)) if request.seed is not None else request.index or 0
        if index >= len(tasks):
            raise faults.unknown_index(index, split, len(tasks))
        return tasks[index]

    def _split(self, environment: str, split: str) -> Sequence[str]:
        self.description(environment)
        splits = self._tasks[environment]
        if split not in splits:
            raise faults.unknown_split(split, splits)
        return splits[split]


def _draw(seed: int, size: int) -> int:
    """An index below ``size`` that a seed always gives, on every machine and in every version."""
    digest = hashlib.sha256(str(seed).encode()).digest()
    return int.from_bytes(digest[:8], "big") % max(size, 1)
