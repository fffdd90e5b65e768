"""Studies: what a study file may say, what is said about what it may not, and the runs that come of it."""

from pathlib import Path

import pytest

from gagpo.comparing.errors import StudyError
from gagpo.comparing.estimate import AROUND_TRAINING_S, estimates
from gagpo.comparing.planning import PlannedRun, RunState, StudyFolder, chosen, claim, plan_runs
from gagpo.comparing.run_record import add_attempt, read_record
from gagpo.comparing.running import StudyJob, make_runs
from gagpo.comparing.study import Study, load_study
from gagpo.stack import ServerSettings
from gagpo.training.run_folder import RunFolderError
from shared.files import try_lock
from shared.recipe import GagpoSettings, GrpoSettings, load_recipe

CONFIGS = Path(__file__).parents[2] / "configs"

RECIPE = """
name = "tiny"
seed = 7
[model]
path = "small"
[[environments]]
name = "alfworld"
[algorithm]
name = "gagpo"
lam = 0.5
[training]
steps = 9
budget_s = 60
[rollout]
groups_per_step = 2
group_size = 4
"""

STUDY = """
name = "made-up"
seeds = [1, 2]
set = ["rollout.concurrency=3"]
[budget]
environment_steps = 1000
[[bases]]
name = "one"
recipe = "recipe.toml"
set = ["evaluation.episodes=5"]
[[bases]]
name = "two"
recipe = "recipe.toml"
budget = { training_steps = 4 }
threshold = 0.3
[[variants]]
name = "gagpo"
label = "GAGPO"
set_on = { two = ["optimizer.warmup_steps=5"] }
[[variants]]
name = "grpo"
label = "GRPO"
algorithm = { name = "grpo", clip_high = 0.3 }
set = ["optimizer.learning_rate=2e-4"]
bases = ["one"]
"""


def written(folder: Path, study: str = STUDY) -> Path:
    (folder / "recipe.toml").write_text(RECIPE)
    file = folder / "study.toml"
    file.write_text(study)
    return file


def planned(folder: Path, study: str = STUDY) -> list[PlannedRun]:
    return plan_runs(load_study(written(folder, study)), StudyFolder(folder / "out"))


def test_the_first_seed_of_everything_comes_first(tmp_path: Path) -> None:
    assert [run.name for run in planned(tmp_path)] == [
        *("one-gagpo-s1", "one-grpo-s1", "two-gagpo-s1"),
        *("one-gagpo-s2", "one-grpo-s2", "two-gagpo-s2"),
    ]


def test_a_runs_recipe_is_the_base_with_the_variants_algorithm_overrides_budget_and_seed(tmp_path: Path) -> None:
    gagpo, grpo, two, *_ = planned(tmp_path)
    assert gagpo.recipe.algorithm == GagpoSettings(lam=0.5), "the base's own, where the variant has none"
    assert grpo.recipe.algorithm == GrpoSettings(clip_high=0.3), "the whole table, with nothing left of the base's"
    assert (gagpo.recipe.optimizer.learning_rate, grpo.recipe.optimizer.learning_rate) == (1e-6, 2e-4)
    assert (gagpo.recipe.rollout.concurrency, two.recipe.rollout.concurrency) == (3, 3)
    assert (gagpo.recipe.optimizer.warmup_steps, two.recipe.optimizer.warmup_steps) == (0, 5)
    assert (gagpo.recipe.evaluation.episodes, two.recipe.evaluation.episodes) == (5, 128)
    assert (gagpo.recipe.seed, gagpo.recipe.name, gagpo.recipe.model.path) == (1, "one-gagpo", tmp_path / "small")


def test_the_budget_replaces_every_limit_of_the_recipe(tmp_path: Path) -> None:
    one, _, two, *_ = planned(tmp_path)
    training = one.recipe.training
    assert (training.environment_steps, training.budget_s) == (1000, None)
    assert training.steps == 125, "1000 steps are at most 125 training steps of 8 episodes, each a step long"
    assert (two.recipe.training.environment_steps, two.recipe.training.steps) == (None, 4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = [1, 2]", "seeds = [1, 1]", "seeds has 1 twice"),
        ('label = "GRPO"', 'lable = "GRPO"', "variants.1.lable: unknown key (did you mean 'label'?)"),
        ("environment_steps = 1000", "", "budget: give environment_steps (what a fair comparison takes)"),
        ('bases = ["one"]', 'bases = ["three"]', "variant 'grpo' names base 'three'; there are one, two"),
        ("set_on = { two", "set_on = { four", "variant 'gagpo' names base 'four'; there are one, two"),
        ('name = "grpo"\n', 'name = "gagpo"\n', "variants has 'gagpo' twice"),
        ("seeds = [1, 2]", 'seeds = [1]\nreference = "ppo"', "reference = 'ppo' is no variant; there are gagpo, grpo"),
        (
            "seeds = [1, 2]",
            "seeds = [1]\nearly_share = 2.0",
            "early_share = 2.0: Input should be less than or equal to 1",
        ),
        ("seeds = [1, 2]", "seeds = 1, 2", "is not valid TOML"),
    ],
)
def test_a_fault_of_a_study_is_named_with_field_value_and_remedy(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    assert old in STUDY
    with pytest.raises(StudyError) as caught:
        load_study(written(tmp_path, STUDY.replace(old, new)))
    assert message in str(caught.value)


def test_names_that_would_share_a_folder_are_refused(tmp_path: Path) -> None:
    study = STUDY.replace('name = "two"', 'name = "one-gagpo"').replace("{ two =", "{ one-gagpo =")
    study = study.replace('name = "grpo"\nl', 'name = "gagpo-gagpo"\nl')
    with pytest.raises(StudyError, match="two runs would be called 'one-gagpo-gagpo'"):
        load_study(written(tmp_path, study))


def test_every_variant_without_a_valid_recipe_is_named_before_anything_runs(tmp_path: Path) -> None:
    study = STUDY.replace("clip_high = 0.3", "clip_hi = 0.3").replace(
        'label = "GAGPO"', 'label = "G"\nset = ["seed=x"]'
    )
    with pytest.raises(StudyError) as caught:
        planned(tmp_path, study)
    told = str(caught.value)
    assert "variant 'grpo' on base 'one'" in told
    assert "algorithm.clip_hi: unknown key (did you mean 'clip_high'?)" in told
    assert "'seed=x' is not valid TOML" in told
    assert not (tmp_path / "out").exists()


def test_a_run_goes_from_new_over_failed_and_unfinished_to_complete(tmp_path: Path) -> None:
    folder, run = StudyFolder(tmp_path / "out"), planned(tmp_path)[0]
    assert run.state() is RunState.NEW
    claim(run, folder)
    assert run.state() is RunState.UNFINISHED
    assert load_recipe(run.folder.recipe) == run.recipe, "gagpo train makes the same run of it"
    add_attempt(run.folder, 5.0, "the trainer died")
    assert run.state() is RunState.FAILED
    add_attempt(run.folder, 7.0, None)
    run.folder.summary.write_text("{}")
    assert run.state() is RunState.COMPLETE
    assert (read_record(run.folder).attempts, read_record(run.folder).seconds) == (2, 12.0)


def test_a_changed_study_makes_the_changed_runs_anew_and_keeps_what_was_there(tmp_path: Path) -> None:
    folder, before = StudyFolder(tmp_path / "out"), planned(tmp_path)
    for run in before:
        claim(run, folder)
        run.folder.summary.write_text("{}")
    after = planned(tmp_path, STUDY.replace("clip_high = 0.3", "clip_high = 0.4"))
    changed = [run for run in after if run.state() is RunState.CHANGED]
    assert [run.name for run in changed] == ["one-grpo-s1", "one-grpo-s2"]
    assert {run.state() for run in after if run not in changed} == {RunState.COMPLETE}
    claim(changed[0], folder)
    assert changed[0].state() is RunState.UNFINISHED
    kept = load_recipe(folder.replaced / "one-grpo-s1-1" / "recipe.toml")
    assert kept == before[1].recipe


def test_a_changed_run_that_is_being_trained_stays_where_it_is(tmp_path: Path) -> None:
    folder, before = StudyFolder(tmp_path / "out"), planned(tmp_path)[0]
    claim(before, folder)
    changed = planned(tmp_path, STUDY.replace("evaluation.episodes=5", "evaluation.episodes=6"))[0]
    with before.folder.lock(), pytest.raises(RunFolderError, match="another process"):
        claim(changed, folder)
    assert before.state() is RunState.UNFINISHED


def test_runs_share_servers_unless_the_servers_would_serve_something_else(tmp_path: Path) -> None:
    def servers(run: PlannedRun) -> ServerSettings:
        return ServerSettings.of(run.recipe, {})

    gagpo, grpo, *_ = planned(tmp_path)
    assert servers(gagpo) == servers(grpo)
    for change in ("prompt.max_tokens=900", 'model.path="other"'):
        other, *_ = planned(tmp_path, STUDY.replace("evaluation.episodes=5", change.replace('"', "'")))
        assert servers(gagpo) != servers(other), change


def test_two_commands_do_not_work_on_one_study_at_once(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    with (tmp_path / "study.lock").open("w") as held:
        assert try_lock(held)
        with pytest.raises(StudyError, match=f"--out {tmp_path}: another gagpo compare is at work there"):
            make_runs(StudyJob(tmp_path / "study.toml", folder, [], 1), [], print)


def test_only_some_variants_can_be_chosen(tmp_path: Path) -> None:
    runs = planned(tmp_path)
    assert {run.variant for run in chosen(runs, ["grpo"])} == {"grpo"}
    assert chosen(runs, []) == runs
    with pytest.raises(StudyError, match="--only ppo: the study has no such variant; it has gagpo, grpo"):
        chosen(runs, ["ppo"])


def test_a_run_is_expected_to_take_what_runs_like_it_took(tmp_path: Path) -> None:
    folder, runs = StudyFolder(tmp_path / "out"), planned(tmp_path)
    for run, seconds in zip(runs[:2], (40.0, 60.0), strict=True):
        claim(run, folder)
        add_attempt(run.folder, seconds, None)
        run.folder.summary.write_text("{}")
    expected = estimates(runs)
    assert (expected["one-gagpo-s2"], expected["one-grpo-s2"]) == (40.0, 60.0)
    assert expected["two-gagpo-s1"] is None, "nothing was made on this base, and its model is not there to plan with"


@pytest.mark.parametrize("file", sorted((CONFIGS / "studies").glob("*.toml")), ids=lambda file: file.name)
def test_the_studies_that_ship_with_the_project_can_be_planned(file: Path, tmp_path: Path) -> None:
    study: Study = load_study(file)
    runs = plan_runs(study, StudyFolder(tmp_path))
    assert len(runs) == len(study.seeds) * sum(len(study.variants_on(base)) for base in study.bases)


def test_where_nothing_was_made_the_plan_of_a_training_step_tells(tmp_path: Path) -> None:
    runs = plan_runs(load_study(CONFIGS / "studies" / "smoke.toml"), StudyFolder(tmp_path))
    expected = estimates(runs)[runs[0].name]
    assert expected is not None
    assert AROUND_TRAINING_S < expected < AROUND_TRAINING_S + 120


def test_the_study_of_credit_assignment_gives_all_the_same_but_the_algorithm() -> None:
    study = load_study(CONFIGS / "studies" / "credit-assignment.toml")
    runs = plan_runs(study, StudyFolder(Path("out")))
    assert {run.recipe.algorithm.name for run in runs} == {"gagpo", "gigpo", "grpo", "rloo", "ppo"}
    assert len(study.seeds) >= 3
    for base in study.bases:
        own = [run.recipe for run in runs if run.base == base.name]
        assert len({recipe.training.model_dump_json() for recipe in own}) == 1
        assert len({recipe.rollout.model_dump_json() for recipe in own}) == 1
