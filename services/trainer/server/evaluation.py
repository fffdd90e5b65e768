"""Held-out evaluation before and after a job's training, by the orchestrator's own program as a child process."""

import asyncio
import logging
import sys
import threading
from collections.abc import Mapping
from enum import StrEnum

from pydantic import JsonValue

from services.trainer.policy_replicas import PolicyReplicas, WeightPushError
from services.trainer.server.run_folder import RunFolder
from services.trainer.server.servers import Servers
from services.trainer.server.settings import TrainerSettings
from shared.problems import ProblemError
from shared.recipe import Recipe
from shared.schemas.evaluation import EpisodeFigures, EvaluationReport
from shared.schemas.policy import WeightFile, WeightPush
from shared.weights_digest import digest_of_folder

logger = logging.getLogger(__name__)

EVALUATION_EVENT = "evaluation"
"""Kind of the event with the figures of an evaluation; its payload says ``when``."""

EVALUATION_FAILED_EVENT = "evaluation-failed"
"""Kind of the event that there is no such evaluation, and the ``reason``. Training goes on."""


class When(StrEnum):
    """Which evaluation of a job."""

    BEFORE = "before"
    AFTER = "after"


class EvaluationError(Exception):
    """The evaluation could not be made."""


class Evaluations:
    """Says which evaluations are due, and how each is made."""

    def __init__(self, settings: TrainerSettings, servers: Servers) -> None:
        """``servers`` are asked for the model that the policy servers began with."""
        self._settings = settings
        self._servers = servers

    def due(self, recipe: Recipe, folder: RunFolder, when: When) -> bool:
        """Whether the recipe wants it, it is not there, and it can still be made."""
        wanted = self._settings.evaluate and recipe.evaluation.episodes > 0 and not folder.evaluation(when).exists()
        return wanted and (when is When.AFTER or not folder.checkpoints())

    async def prepare(self, recipe: Recipe, when: When) -> None:
        """Have the policy servers serve what is to be evaluated. Raises `EvaluationError`.

        Before training they may hold the last job's weights still; after it they hold this job's.
        """
        if when is When.AFTER:
            return
        try:
            served = await self._servers.models()
            digest = await asyncio.to_thread(digest_of_folder, recipe.model.path)
            first = WeightPush(version=0, digest=digest, source=WeightFile(path=str(served[0].folder)))
            await self._push(first, recipe.weights.push_timeout_s)
        except (ProblemError, WeightPushError, OSError) as error:
            raise EvaluationError(f"the policy servers do not serve the initial weights: {error}") from error

    def command(self, folder: RunFolder, when: When) -> list[str]:
        """The command line."""
        return [
            *(sys.executable, "-m", "services.orchestrator.evaluate", "--quiet"),
            *("--recipe", str(folder.recipe), "--out", str(folder.evaluation(when))),
            *("--env-url", ",".join(self._settings.env_urls), "--policy-url", ",".join(self._settings.policy_urls)),
        ]

    async def _push(self, push: WeightPush, timeout_s: float) -> None:
        unwanted = threading.Event()

        def check() -> None:
            if unwanted.is_set():
                raise WeightPushError("the trainer service stops")

        def work() -> None:
            replicas = PolicyReplicas(self._settings.policy_urls, timeout_s, check)
            try:
                replicas.push(push)
            finally:
                replicas.close()

        try:
            await asyncio.to_thread(work)
        finally:
            unwanted.set()  # where this was cancelled, the thread still pushes


def figures(folder: RunFolder, when: When) -> dict[str, JsonValue]:
    """What the event says of a report that was written."""
    report = EvaluationReport.model_validate_json(folder.evaluation(when).read_bytes())
    environments: Mapping[str, EpisodeFigures] = report.environments
    return {
        "when": when.value,
        "policy_version": report.policy_version,
        "seconds": report.seconds,
        **_figures(report),
        "environments": {name: _figures(one) for name, one in environments.items()},
    }


def _figures(of: EpisodeFigures) -> dict[str, JsonValue]:
    return {
        "episodes": of.episodes,
        "success_rate": of.success_rate,
        "success_interval": [of.success_interval.low, of.success_interval.high],
        "mean_score": of.mean_score,
        "mean_steps": of.mean_steps,
    }
