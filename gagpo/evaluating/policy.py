"""Who is to be evaluated: from what a person types to a `PolicySpec`."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from gagpo.evaluating.errors import EvaluationError
from shared.run_layout import CHECKPOINT_PREFIX, RunFiles
from shared.schemas.evaluation import EndpointApi, EndpointPolicy, ExpertPolicy, PolicySpec, RandomPolicy, ServedPolicy
from shared.weights_digest import digest_of_folder


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """What goes with a policy that is a URL."""

    model: str | None = None
    api: EndpointApi = EndpointApi.CHAT
    key_variable: str = "OPENAI_API_KEY"
    body: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundPolicy:
    """A policy, and what is known besides."""

    spec: PolicySpec
    name: str
    """Short, for a folder's name."""
    recipe: Path | None = None
    """The recipe that it was trained with."""


def find_policy(given: str, endpoint: EndpointOptions) -> FoundPolicy:
    """``random``, ``expert``, a URL, a run's folder (its newest checkpoint) or a model's. Raises `EvaluationError`."""
    match given:
        case "random":
            return FoundPolicy(RandomPolicy(), given)
        case "expert":
            return FoundPolicy(ExpertPolicy(), given)
    if given.startswith(("http://", "https://")):
        return _endpoint(given, endpoint)
    folder = Path(given).resolve()
    if not folder.is_dir():
        raise EvaluationError(
            f"POLICY = {given!r} is no folder: give a checkpoint's folder, a run's, random, expert, or the URL of an "
            "OpenAI-compatible endpoint with --model NAME"
        )
    run = RunFiles(folder)
    if run.recipe.exists():
        return _checkpoint(_newest(run), run)
    # A checkpoint lies in runs/<run>/checkpoints/<step>.
    return _checkpoint(folder, RunFiles(folder.parent.parent))


def _newest(run: RunFiles) -> Path:
    found = sorted(run.checkpoint_folder.glob(f"{CHECKPOINT_PREFIX}*"))
    if not found:
        raise EvaluationError(f"the run {run.path} has no checkpoint yet; evaluate the model that it starts from")
    return found[-1]


def _checkpoint(model: Path, run: RunFiles) -> FoundPolicy:
    try:
        digest = digest_of_folder(model)
    except FileNotFoundError as error:
        raise EvaluationError(f"{model} holds no model: a Hugging Face folder with *.safetensors is wanted") from error
    spec = ServedPolicy(model=model, digest=digest)
    if run.recipe.exists() and model.parent == run.checkpoint_folder:
        return FoundPolicy(spec, f"{run.job}-{model.name}", run.recipe)
    return FoundPolicy(spec, model.name)


def _endpoint(url: str, options: EndpointOptions) -> FoundPolicy:
    if options.model is None:
        raise EvaluationError(f"POLICY = {url}: give the model's name there with --model")
    spec = EndpointPolicy(
        url=url.rstrip("/"),
        model=options.model,
        api=options.api,
        key_variable=options.key_variable,
        body=options.body,
    )
    return FoundPolicy(spec, re.sub(r"[^A-Za-z0-9.]+", "-", options.model).strip("-"))
