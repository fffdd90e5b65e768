"""What the job API says to recipes that are wrong, or that the running servers cannot train. No worker is started."""

import fcntl
from collections.abc import Iterator

import httpx
import pytest

from shared.buffer import EventReader
from shared.schemas.job import JobState
from tests.job_service import Document, JobSystem, TrainerUnderTest
from tests.policy_processes import write_tiny_model


@pytest.fixture(scope="module")
def trainer(system: JobSystem) -> Iterator[TrainerUnderTest]:
    """A service whose jobs stay queued, since another process works in its folder of runs."""
    system.runs.mkdir()
    with (system.runs / "trainer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with system.trainer() as running:
            yield running


def _with(recipe: Document, field: str, value: object) -> Document:
    """The recipe with another value for a dotted field; None takes it out."""
    table: dict[str, object] = recipe
    *path, last = field.split(".")
    for part in path:
        following = table[int(part)] if isinstance(table, list) else table.setdefault(part, {})
        assert isinstance(following, dict | list)
        table = following  # type: ignore[assignment]
    if value is None:
        del table[last]
    else:
        table[last] = value
    return recipe


@pytest.mark.parametrize(
    ("field", "value", "named", "said"),
    [
        ("environments.0.max_steps", 0, None, "greater than or equal to 1 (given: 0)"),
        ("algorithm.gama", 0.9, None, "unknown key (did you mean 'gamma'?)"),
        ("algorithm.advantage", "gea", None, "'gae', 'td' or 'mc' (given: 'gea')"),
        ("model.path", None, None, "required, and not given"),
        ("training.steps", "many", None, "a valid integer"),
        ("training.minibatches", 99, "recipe", "training.minibatches = 99 is more than the 16 episodes of a step"),
        ("weights.transport", "nccl", None, "take 'file' or 'http'"),
        ("prompt.template", "compat", None, "shipped: compact"),
        ("prompt.template", "mine.jinja", None, "no such template"),
        ("environments.0.prompt.template", "mine.jinja", None, "no such template"),
        ("name", "Not A Name", None, "pattern"),
    ],
)
def test_a_recipe_that_is_wrong_is_refused_by_field_value_and_remedy(
    system: JobSystem, trainer: TrainerUnderTest, field: str, value: object, named: str | None, said: str
) -> None:
    answer = trainer.submit(_with(system.recipe(), field, value))
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "/problems/invalid-recipe"
    (fault,) = problem["faults"]
    assert fault["field"] == (named or field)
    assert said in fault["message"]
    assert fault["field"] in problem["detail"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("environments.0.name", "labyrinth", "the env servers have: maze"),
        ("environments.0.split", "tarin", "maze has the splits train ("),
        ("environments.0.options.colour", "red", "maze has no such option"),
        ("model.path", "../models/another", "the policy servers serve 'model'"),
        ("prompt.max_tokens", 2000, "the policy servers take 1024"),
        ("rollout.group_size", 5000, "at most 1024 sessions"),
    ],
)
def test_a_recipe_that_the_servers_cannot_train_is_refused_with_the_reason(
    system: JobSystem, trainer: TrainerUnderTest, field: str, value: object, said: str
) -> None:
    answer = trainer.submit(_with(system.recipe(), field, value))
    assert answer.status_code == 409, answer.text
    problem = answer.json()
    assert problem["type"] == "/problems/not-servable"
    (fault,) = problem["faults"]
    assert fault["field"] == field
    assert said in fault["message"]


def test_all_faults_are_told_at_once(system: JobSystem, trainer: TrainerUnderTest) -> None:
    recipe = _with(_with(system.recipe(), "environments.0.split", "tarin"), "evaluation.episodes", 8)
    faults = trainer.submit(_with(recipe, "model.path", "/nowhere")).json()["faults"]
    assert {fault["field"] for fault in faults} == {
        "environments.0.split",
        "environments.0.eval_split",
        "model.path",
    }


def test_the_model_goes_by_name_by_folder_or_by_what_is_in_it(system: JobSystem, trainer: TrainerUnderTest) -> None:
    copy = system.folder / "copy"
    copy.mkdir()
    for file in system.model.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    for given in ("model", "elsewhere/model", str(system.model), str(copy)):
        answer = trainer.submit(_with(system.recipe(), "model.path", given))
        assert answer.status_code == 201, answer.text
        job = answer.json()["id"]
        assert trainer.show(job).recipe["model"]["path"] == str(system.model)  # type: ignore[index,call-overload]
        assert trainer.post(f"{job}/cancel").json()["state"] == "cancelled"


def test_another_model_is_noticed_however_many_weights_the_policy_server_was_given_since(
    system: JobSystem, trainer: TrainerUnderTest
) -> None:
    other = system.folder / "other" / "model"
    write_tiny_model(other, seed=5)
    system.endpoint.history += [(version, "trained") for version in range(1, 41)]
    assert [entry["version"] for entry in system.endpoint.weights()["history"]] == list(range(9, 41))  # type: ignore[attr-defined]
    assert trainer.submit(system.recipe()).status_code == 201
    with system.trainer(GAGPO_TRAINER_MODEL=str(other)) as astray:
        answer = astray.submit(system.recipe())
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/not-servable")
    assert "holds other weights than the policy servers were started with" in answer.json()["faults"][0]["message"]


def test_a_server_that_is_away_is_named_and_the_same_submission_may_be_repeated(
    system: JobSystem, trainer: TrainerUnderTest
) -> None:
    recipe = system.recipe()
    assert trainer.submit(recipe, "again").status_code == 201
    with system.trainer(GAGPO_TRAINER_POLICY_URL="http://127.0.0.1:9") as lonely:
        answer = lonely.submit(recipe)
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/server-unavailable")
        assert "http://127.0.0.1:9/v1/models" in answer.json()["detail"]
        assert answer.headers["retry-after"]
        assert lonely.submit(recipe, "again").status_code == 200, "what is there needs no server"
    other = trainer.submit(system.recipe(steps=9), "again")
    assert (other.status_code, other.json()["type"]) == (409, "/problems/job-conflict")
    assert trainer.submit(recipe, "no/slashes").status_code == 422


def test_generated_tasks_are_the_env_servers_own_and_the_submitter_is_told(
    system: JobSystem, trainer: TrainerUnderTest
) -> None:
    job = "with-tasks"
    assert trainer.submit(_with(system.recipe(), "environments.0.generate", ["--tasks", "4"]), job).status_code == 201
    notes = [event.payload for event in EventReader(system.redis_url, job).read() if event.kind == "note"]
    assert [str(note["message"]).split(" is ")[0] for note in notes] == ["environments.0.generate"]


def test_ids_are_made_and_unknown_ones_refused(system: JobSystem, trainer: TrainerUnderTest) -> None:
    made = trainer.submit(system.recipe()).json()
    assert made["id"].startswith("trainer-test-")
    assert made["state"] == JobState.QUEUED
    for path in ("", "/events", "/logs", "/checkpoints", "/metrics"):
        answer = httpx.get(f"{trainer.jobs}/none{path}")
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-job")
    for verb in ("cancel", "resume"):
        assert trainer.post(f"none/{verb}").status_code == 404


def test_the_stream_of_a_waiting_job_says_that_it_is_alive(system: JobSystem, trainer: TrainerUnderTest) -> None:
    job = trainer.submit(system.recipe()).json()["id"]
    with httpx.stream("GET", f"{trainer.jobs}/{job}/events", timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        seen = [next(lines) for _ in range(7)]
        assert seen[1:3] == ["event: state", 'data: {"state":"queued","before":null,"reason":null}']
        assert ": alive" in seen
        trainer.post(f"{job}/cancel")
        rest = list(lines)  # the stream ends by itself
    assert "event: state" in rest
    assert any('"cancelled"' in line for line in rest)


def test_it_is_ready_and_shows_figures(trainer: TrainerUnderTest) -> None:
    assert httpx.get(f"{trainer.process.url}/readyz").json() == {"status": "ready", "job": None}
    text = httpx.get(f"{trainer.process.url}/metrics").text
    assert 'gagpo_trainer_submissions_refused_total{kind="invalid-recipe"}' in text
