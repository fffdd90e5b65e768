"""What is evaluated, what is kept of it, and the baselines."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from gagpo.evaluating.errors import EvaluationError
from gagpo.evaluating.folder import EvaluationFolder
from gagpo.evaluating.policy import EndpointOptions, FoundPolicy, find_policy
from gagpo.evaluating.request import EvaluationRequest, make_spec
from services.orchestrator.episode import TurnSeeds
from services.orchestrator.evaluation.policies import UniformPolicy
from services.orchestrator.evaluation.report import EvaluationError as ReportError
from services.orchestrator.evaluation.transcripts import Transcripts
from shared.schemas.environment import EnvironmentDescription, Observation, OptionDescription
from shared.schemas.evaluation import EndpointPolicy, ExpertPolicy, RandomPolicy, ServedPolicy, Transcript
from tests.evaluations import result, spec

REPOSITORY = Path(__file__).parents[2]
SMALL_POLICY = REPOSITORY / "configs" / "small-policy"
MAZE = EnvironmentDescription(
    name="maze",
    splits={"train": 20, "valid": 5, "none": 0},
    max_steps=30,
    action_format="north",
    options=[OptionDescription(name="expert", description="", default=False)],
    versions={},
    data_digest="d" * 64,
)
RANDOM = FoundPolicy(RandomPolicy(), "random")


def observed(actions: list[str], goal: str = "buy a red hat below 40 dollars") -> Observation:
    return Observation(
        session_id="s",
        task_id="t",
        observation="Here.",
        admissible_actions=actions,
        state_key="k",
        step_index=0,
        info={"goal": goal},
    )


async def acts(now: Observation, seeds: TurnSeeds, turns: int) -> list[str]:
    actor = UniformPolicy().start(now, seeds)
    moves = [await actor.act(now, turn) for turn in range(turns)]
    return [move.action for move in moves if move is not None]


def test_the_random_baseline_is_uniform_and_seeded() -> None:
    now = observed(["north", "south", "take coin"])
    taken = asyncio.run(acts(now, TurnSeeds(1, 2), 3000))
    assert all(900 < count < 1100 for count in Counter(taken).values())
    assert taken == asyncio.run(acts(now, TurnSeeds(1, 2), 3000))
    assert taken != asyncio.run(acts(now, TurnSeeds(1, 3), 3000))


def test_the_random_baseline_searches_for_runs_of_the_tasks_own_words() -> None:
    searches = set(asyncio.run(acts(observed(["search[<query>]"]), TurnSeeds(1), 200)))
    assert len(searches) > 10
    for search in searches:
        assert search.startswith("search[")
        assert search[7:-1] and search[7:-1] in "buy a red hat below 40 dollars"


def transcript(number: int, sample: int = 0) -> Transcript:
    return Transcript(
        number=number, attempt=0, result=result(f"t{number}", True, sample=sample), seconds=1, steps=[],
        final_observation="",
    )  # fmt: skip


def test_transcripts_go_on_behind_the_last_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "transcripts.jsonl"
    with Transcripts(file) as written:
        written.add(transcript(0))
        written.add(transcript(1, sample=2))
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:40])
    with Transcripts(file) as read:
        assert set(read.finished) == {(0, 0), (1, 2)}
        assert file.read_bytes() == whole
        read.add(transcript(3))
    assert set(Transcripts(file).finished) == {(0, 0), (1, 2), (3, 0)}


def test_a_damaged_line_that_is_not_the_last_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "transcripts.jsonl"
    file.write_text('{"number": 1}\n')
    with pytest.raises(ReportError, match="line 1"):
        Transcripts(file)


def test_a_folder_that_was_begun_with_other_arguments_says_which(tmp_path: Path) -> None:
    folder = EvaluationFolder(tmp_path / "e")
    with (
        folder.claim(spec()),
        pytest.raises(EvaluationError, match="another process"),
        EvaluationFolder(tmp_path / "e").claim(spec()),
    ):
        pass
    with folder.claim(spec().model_copy(update={"concurrency": 2})):
        pass
    with (
        pytest.raises(EvaluationError, match=r"samples was 1, now 4.*seed was 1, now 2.*--out"),
        folder.claim(spec(samples=4, seed=2)),
    ):
        pass


def test_policies_are_found_by_what_is_typed(tmp_path: Path) -> None:
    usual = EndpointOptions()
    assert isinstance(find_policy("random", usual).spec, RandomPolicy)
    assert isinstance(find_policy("expert", usual).spec, ExpertPolicy)
    model = find_policy(str(SMALL_POLICY), usual)
    assert isinstance(model.spec, ServedPolicy)
    assert (model.spec.model, model.name, model.recipe) == (SMALL_POLICY, "small-policy", None)
    endpoint = find_policy("https://host/v1/", EndpointOptions(model="org/name"))
    assert isinstance(endpoint.spec, EndpointPolicy)
    assert (endpoint.spec.url, endpoint.name) == ("https://host/v1", "org-name")
    with pytest.raises(EvaluationError, match="--model"):
        find_policy("https://host/v1", usual)
    with pytest.raises(EvaluationError, match="no folder"):
        find_policy(str(tmp_path / "nothing"), usual)
    with pytest.raises(EvaluationError, match="safetensors"):
        find_policy(str(tmp_path), usual)


def test_a_run_stands_for_its_newest_checkpoint(tmp_path: Path) -> None:
    run = tmp_path / "maze-s1"
    for step in ("step-000005", "step-000010"):
        (run / "checkpoints" / step).mkdir(parents=True)
        (run / "checkpoints" / step / "model.safetensors").write_bytes(
            (SMALL_POLICY / "model.safetensors").read_bytes()
        )
    (run / "recipe.toml").write_text("")
    newest = find_policy(str(run), EndpointOptions())
    assert newest.recipe == run / "recipe.toml"
    assert newest.name == "maze-s1-step-000010"
    first = find_policy(str(run / "checkpoints" / "step-000005"), EndpointOptions())
    assert (first.recipe, first.name) == (run / "recipe.toml", "maze-s1-step-000005")


def test_without_a_recipe_the_env_server_tells_what_is_usual() -> None:
    made = make_spec(EvaluationRequest("maze", "valid", samples=3), RANDOM, None, [MAZE])
    [maze] = made.environments
    assert (maze.tasks, maze.settings.max_steps, maze.data_digest) == (5, 30, "d" * 64)
    assert maze.settings.options == {"expert": True}
    assert (made.samples, made.episodes, made.seed) == (3, 15, 1234)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (EvaluationRequest("maze"), r"--split: maze has train \(20 tasks\), valid \(5 tasks\)"),
        (EvaluationRequest("maze", "test"), "split = 'test' of maze"),
        (EvaluationRequest("maze", "none"), "split = 'none' of maze"),
        (EvaluationRequest("maze", "valid", tasks=6), "--tasks 6.*has 5.*--samples"),
        (EvaluationRequest("mars", "valid"), "environment = 'mars'"),
        (EvaluationRequest(), "--recipe FILE, or --env NAME"),
    ],
)
def test_what_cannot_be_played_is_said_with_what_can(request_: EvaluationRequest, named: str) -> None:
    with pytest.raises(EvaluationError, match=named):
        make_spec(request_, RANDOM, None, [MAZE])


def test_a_model_of_its_own_needs_a_prompt_and_an_expert_needs_an_environment_that_has_one() -> None:
    request = EvaluationRequest("maze", "valid")
    with pytest.raises(EvaluationError, match="how this model is prompted"):
        make_spec(request, FoundPolicy(ServedPolicy(model=SMALL_POLICY), "m"), None, [MAZE])
    with pytest.raises(EvaluationError, match="no expert"):
        make_spec(request, FoundPolicy(ExpertPolicy(), "e"), None, [MAZE.model_copy(update={"options": []})])
