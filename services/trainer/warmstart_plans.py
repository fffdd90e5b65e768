"""What a warm-up does: the plans that made the policies in configs/."""

from dataclasses import dataclass, replace

from services.trainer.small_policy.model import DEFAULT_SIZE, PLAIN, Size, Start
from services.trainer.warmstart_episodes import Slips, Teacher
from services.trainer.warmstart_fit import FitSettings


@dataclass(frozen=True, slots=True)
class Lesson:
    """Expert episodes, and how the policy is trained on them."""

    episodes: int
    """Tasks of the train split, in order and over again."""
    teacher: Teacher
    fit: FitSettings


@dataclass(frozen=True, slots=True)
class WarmstartSettings:
    """A whole warm-up."""

    environment: str
    title: str
    """The environment as people write it."""
    story: str
    """What the policy has learnt, for its card."""
    knowledge: Lesson
    """The first lesson: what to do, from wherever a slip may have led."""
    doubt: Lesson | None
    """The second lesson: not to be sure of it. It leaves the knowledge, and makes the policy explore: many groups of
    episodes then have both outcomes, which is what it learns from. None where the first leaves enough to find out."""
    size: Size = DEFAULT_SIZE
    start: Start = PLAIN
    min_success: float = 0.2
    """The least held-out success at the recipe's evaluation temperature with which a policy is handed over."""
    evaluation_episodes: int = 256
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PlanChanges:
    """What a person may want otherwise; None leaves it."""

    episodes: int | None
    epochs: int | None
    doubt: float | None
    haste: float | None
    min_success: float | None
    evaluation_episodes: int | None
    seed: int


HOUSEHOLD_SLIPS = Slips(0.15)
SEARCHER = Teacher(HOUSEHOLD_SLIPS)
SHOPPING_SLIPS = Slips(0.1, failed=0.0, never=("search[", "click[buy now]"))

PLANS = {
    "alfworld": WarmstartSettings(
        environment="alfworld",
        title="ALFWorld",
        story=(
            "learnt what to do from an expert that searches, and then, by label smoothing, never to be quite sure of it"
        ),
        knowledge=Lesson(8000, SEARCHER, FitSettings(epochs=6)),
        doubt=Lesson(500, SEARCHER, FitSettings(epochs=1, learning_rate=1.5e-4, label_smoothing=0.1)),
    ),
    "alfworld-wandering": WarmstartSettings(
        environment="alfworld",
        title="ALFWorld",
        story=(
            "learnt how to do things from an expert that looks for them anywhere, and has yet to find out where "
            "things usually are"
        ),
        knowledge=Lesson(8000, Teacher(HOUSEHOLD_SLIPS, {"expert_style": "wandering"}), FitSettings(epochs=6)),
        doubt=None,
    ),
    "webshop": WarmstartSettings(
        environment="webshop",
        title="WebShop",
        story=(
            "learnt what to do from an expert that knows what to buy, and then, from one in haste that often takes "
            "any product and any option, not to look too closely"
        ),
        knowledge=Lesson(
            8000, Teacher(SHOPPING_SLIPS, {"expert_style": "optimal"}), FitSettings(epochs=4, learning_rate=3e-3)
        ),
        doubt=Lesson(
            500,
            Teacher(SHOPPING_SLIPS, {"expert_style": "hasty", "expert_haste": 0.9}),
            FitSettings(epochs=1, learning_rate=7e-4),
        ),
        size=Size(feed_forward=256),
        start=Start(word_scale=10, attention_to_same=0.7, copying=0.3, following=True),
    ),
}
"""By name; an environment's own is the plan of the policy that its demo starts from."""


def changed(plan: WarmstartSettings, changes: PlanChanges) -> WarmstartSettings:
    """A plan with what somebody wants otherwise. The second lesson keeps its share of the episodes."""
    first = plan.knowledge
    if changes.episodes is not None:
        first = replace(first, episodes=changes.episodes)
    if changes.epochs is not None:
        first = replace(first, fit=replace(first.fit, epochs=changes.epochs))
    return replace(
        plan,
        knowledge=first,
        doubt=None if plan.doubt is None else _changed_doubt(plan.doubt, plan.knowledge.episodes, changes),
        min_success=plan.min_success if changes.min_success is None else changes.min_success,
        evaluation_episodes=changes.evaluation_episodes or plan.evaluation_episodes,
        seed=changes.seed,
    )


def _changed_doubt(second: Lesson, first_episodes: int, changes: PlanChanges) -> Lesson:
    if changes.episodes is not None:
        share = second.episodes / first_episodes
        second = replace(second, episodes=max(1, int(changes.episodes * share)))
    if changes.doubt is not None:
        second = replace(second, fit=replace(second.fit, label_smoothing=changes.doubt))
    if changes.haste is not None:
        options = {**second.teacher.options, "expert_style": "hasty", "expert_haste": changes.haste}
        second = replace(second, teacher=replace(second.teacher, options=options))
    return second
