"""Which of an expert's steps the policy is to imitate."""

import pytest

from services.trainer.small_policy.checkpoint import save_policy
from services.trainer.small_policy.model import Size, build_model
from services.trainer.warmstart_episodes import EnvServerError, SlippingExpert, Slips, Teacher
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import PromptSettings
from shared.schemas.environment import InfoValue, Observation

ADMISSIBLE = ["go to desk 1", "inventory", "look"]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> PromptBuilder:
    folder = tmp_path_factory.mktemp("policy")
    save_policy(build_model(Size(hidden=32, feed_forward=32, layers=1, heads=1), 0), folder)
    return PromptBuilder(PromptSettings(), PolicyTokenizer(folder))


def seen(session: str, **info: InfoValue) -> Observation:
    return Observation(
        session_id=session,
        task_id="task",
        observation="room",
        admissible_actions=ADMISSIBLE,
        state_key="",
        step_index=0,
        info=info,
    )


def act(expert: SlippingExpert, rounds: int, advice: InfoValue = "go to desk 1") -> list[str]:
    return [expert([[5, 6]], [seen("one", expert_action=advice)])[0] for _ in range(rounds)]


def test_without_slips_every_step_is_the_experts_and_is_imitated(builder: PromptBuilder) -> None:
    expert = SlippingExpert(builder, Teacher(Slips(0.0)), 0)
    assert act(expert, 5) == ["go to desk 1"] * 5
    ((*samples,),) = expert.episodes()
    assert [(sample.prompt, sample.answer) for sample in samples] == [([5, 6], builder.answer("go to desk 1"))] * 5


def test_slips_lead_elsewhere_but_are_not_imitated(builder: PromptBuilder) -> None:
    expert = SlippingExpert(builder, Teacher(Slips(0.5)), 0)
    actions = act(expert, 200)
    assert 60 < sum(action != "go to desk 1" for action in actions) < 100  # a third of 100 slips hit the advice
    ((*samples,),) = expert.episodes()
    assert 80 < len(samples) < 120
    assert {tuple(sample.answer) for sample in samples} == {tuple(builder.answer("go to desk 1"))}


def test_an_expert_at_a_loss_does_anything(builder: PromptBuilder) -> None:
    expert = SlippingExpert(builder, Teacher(Slips(0.0)), 0)
    assert set(act(expert, 50, advice=None)) == set(ADMISSIBLE)
    assert expert.episodes() == [[]]


def test_an_environment_without_an_expert_is_refused(builder: PromptBuilder) -> None:
    with pytest.raises(EnvServerError, match="expert = true"):
        SlippingExpert(builder, Teacher(Slips(0.0)), 0)([[5]], [seen("one")])


def test_experts_of_different_episodes_and_seeds_search_in_different_orders(builder: PromptBuilder) -> None:
    one, two = SlippingExpert(builder, Teacher(Slips(0.0)), 1), SlippingExpert(builder, Teacher(Slips(0.0)), 2)
    seeds = [expert.options(episode)["expert_seed"] for expert in (one, two) for episode in range(100)]
    assert len(set(map(str, seeds))) == 200


def test_some_actions_are_never_slips_and_where_nothing_else_can_be_done_the_advice_is_taken(
    builder: PromptBuilder,
) -> None:
    never = Teacher(Slips(1.0, failed=0.0, never=("go", "look")))
    assert act(SlippingExpert(builder, never, 0), 20) == ["inventory"] * 20
    expert = SlippingExpert(builder, Teacher(Slips(1.0, never=("go", "look", "inventory"))), 0)
    assert act(expert, 3) == ["go to desk 1"] * 3
    assert [len(samples) for samples in expert.episodes()] == [3]


def test_a_teachers_options_reach_the_session(builder: PromptBuilder) -> None:
    hasty: dict[str, InfoValue] = {"expert_style": "hasty", "expert_haste": 0.5}
    options = SlippingExpert(builder, Teacher(Slips(0.0), hasty), 1).options(3)
    assert options == {"expert": True, **hasty, "expert_seed": (1 << 24) + 3}
