"""What is to be played: from a recipe or a few options, and what the env server has, to an `EvaluationSpec`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gagpo.evaluating.errors import EvaluationError
from gagpo.evaluating.policy import FoundPolicy
from shared.recipe import EnvironmentSettings, EvaluationSettings, PromptSettings, Recipe, SamplingDefaults
from shared.schemas.environment import EnvironmentDescription, InfoValue
from shared.schemas.evaluation import EvaluatedEnvironment, EvaluationSpec, ExpertPolicy, ServedPolicy

_USUAL_TASKS = 128
_USUAL_PROMPT = PromptSettings(template="think-action", max_tokens=4096)
"""For an instruct model; shorter ones than the models themselves take."""

_USUAL_SAMPLING = SamplingDefaults(max_tokens=512)
_USUAL_CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What a person asked for; None leaves it to the recipe, or to what is usual."""

    environment: str | None = None
    split: str | None = None
    tasks: int | None = None
    """Of each environment."""
    samples: int = 1
    seed: int | None = None
    temperature: float | None = None
    concurrency: int | None = None
    prompt: str | None = None
    max_steps: int | None = None
    options: Mapping[str, InfoValue] = field(default_factory=dict)
    out: Path | None = None
    env_url: str | None = None
    policy_url: str | None = None


def make_spec(
    request: EvaluationRequest,
    policy: FoundPolicy,
    recipe: Recipe | None,
    served: Sequence[EnvironmentDescription],
) -> EvaluationSpec:
    """The spec. Raises `EvaluationError` for what the env server does not have."""
    described = {environment.name: environment for environment in served}
    usual = EvaluationSettings() if recipe is None else recipe.evaluation
    usual_concurrency = _USUAL_CONCURRENCY if recipe is None else recipe.rollout.concurrency
    return EvaluationSpec(
        policy=policy.spec,
        environments=[
            _environment(request, policy, recipe, settings, _described(settings.name, described))
            for settings in wanted_environments(request, policy, recipe, described)
        ],
        samples=request.samples,
        seed=usual.seed if request.seed is None else request.seed,
        temperature=usual.temperature if request.temperature is None else request.temperature,
        concurrency=request.concurrency or usual_concurrency,
    )


def wanted_names(request: EvaluationRequest, recipe: Recipe | None) -> list[str]:
    """The environments to play. Raises `EvaluationError` where nothing says which, or the recipe lacks the one."""
    if recipe is None:
        if request.environment is None:
            raise EvaluationError("nothing says what to play: give --recipe FILE, or --env NAME and --split NAME")
        return [request.environment]
    names = [settings.name for settings in recipe.environments]
    if request.environment is None:
        return names
    if request.environment not in names:
        raise EvaluationError(f"--env {request.environment}: the recipe has {', '.join(names)}")
    return [request.environment]


def wanted_environments(
    request: EvaluationRequest,
    policy: FoundPolicy,
    recipe: Recipe | None,
    described: Mapping[str, EnvironmentDescription],
) -> list[EnvironmentSettings]:
    """Their settings: a recipe's, or what is usual for an instruct model."""
    names = wanted_names(request, recipe)
    if recipe is not None:
        return [settings for settings in recipe.environments if settings.name in names]
    [name] = names
    known = _described(name, described)
    if request.split is None:
        raise EvaluationError(f"--env {name} needs --split: {_splits(known)}")
    if isinstance(policy.spec, ServedPolicy) and request.prompt is None:
        raise EvaluationError(
            "nothing says how this model is prompted: give the --recipe that it was trained with, or --prompt NAME"
        )
    return [
        EnvironmentSettings(
            name=name,
            eval_split=request.split,
            max_steps=known.max_steps,
            prompt=_USUAL_PROMPT,
            sampling=_USUAL_SAMPLING,
        )
    ]


def _environment(
    request: EvaluationRequest,
    policy: FoundPolicy,
    recipe: Recipe | None,
    settings: EnvironmentSettings,
    known: EnvironmentDescription,
) -> EvaluatedEnvironment:
    split = request.split or settings.eval_split
    size = known.splits.get(split, 0)
    if size == 0:
        raise EvaluationError(f"split = {split!r} of {settings.name} has no task: {_splits(known)}")
    changes = {
        "eval_split": split,
        "options": _options(request, policy, settings, known),
        "max_steps": request.max_steps or settings.max_steps,
        "prompt": settings.prompt.model_copy(update={"template": request.prompt} if request.prompt else {}),
    }
    return EvaluatedEnvironment(
        settings=settings.model_copy(update=changes),
        tasks=_tasks(request.tasks, _usual_tasks(recipe, settings), size, settings.name, split),
        data_digest=known.data_digest,
    )


def _options(
    request: EvaluationRequest, policy: FoundPolicy, settings: EnvironmentSettings, known: EnvironmentDescription
) -> dict[str, InfoValue]:
    """The environment is asked for its expert where it has one: it tells the optimum, which no prompt shows."""
    has_expert = any(option.name == "expert" for option in known.options)
    if isinstance(policy.spec, ExpertPolicy) and not has_expert:
        raise EvaluationError(f"{settings.name} has no expert: GET /v1/environments lists no such option")
    asked: dict[str, InfoValue] = {"expert": True} if has_expert else {}
    return asked | settings.options | dict(request.options)


def _usual_tasks(recipe: Recipe | None, settings: EnvironmentSettings) -> int:
    if settings.eval_episodes is not None:
        return settings.eval_episodes
    return (recipe.evaluation.episodes if recipe is not None else 0) or _USUAL_TASKS


def _tasks(asked: int | None, usual: int, size: int, environment: str, split: str) -> int:
    """No task is played as two: a second episode of one is what ``--samples`` is for."""
    if asked is None:
        return min(usual, size)
    if asked > size:
        raise EvaluationError(
            f"--tasks {asked}: the split {split!r} of {environment} has {size}; --samples plays each several times"
        )
    return asked


def _described(name: str, described: Mapping[str, EnvironmentDescription]) -> EnvironmentDescription:
    if name not in described:
        raise EvaluationError(f"environment = {name!r}: the env server has {', '.join(sorted(described))}")
    return described[name]


def _splits(known: EnvironmentDescription) -> str:
    return f"{known.name} has " + ", ".join(f"{name} ({size} tasks)" for name, size in known.splits.items())
