"""A checkpoint is a Hugging Face folder as it stands: it loads, computes what the trainer does, and says what it is."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from services.trainer.algorithms import make_algorithm
from services.trainer.checkpoints import CARD, CheckpointStore, TrainerState
from services.trainer.distributed import ALONE
from services.trainer.learner import Learner
from services.trainer.model_card import LATEST_STEPS, ModelCard
from services.trainer.rewards import Rewards
from services.trainer.step_data import assemble
from services.trainer.stopping import StopFlag
from shared.recipe import Recipe, load_recipe
from tests.policy_processes import write_tiny_model
from tests.training import training_group, write_recipe

GROUPS = [training_group(0, index) for index in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("card")
    write_tiny_model(made / "model")
    return made


def recipe_of(folder: Path, *overrides: str) -> Recipe:
    return load_recipe(write_recipe(folder, steps=40), list(overrides))


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_from_pretrained_computes_what_the_trainers_model_does(folder: Path, tmp_path: Path, lora_rank: int) -> None:
    torch.set_num_threads(1)
    recipe = recipe_of(folder, f"model.lora_rank = {lora_rank}", "optimizer.learning_rate = 1e-2")
    learner = Learner(recipe, None, ALONE, StopFlag())
    for step in range(3):
        learner.update(assemble(GROUPS, make_algorithm(recipe), Rewards(recipe), step).samples, step)
    store = CheckpointStore(
        tmp_path, folder / "model", keep=1, card=ModelCard("job", recipe, tmp_path / "metrics.jsonl").text
    )
    policy = learner.whole()
    checkpoint = store.save(policy, learner.save_optimizer, TrainerState(3, []))

    loaded = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    prompt = AutoTokenizer.from_pretrained(checkpoint)(" ".join(f"w{n}" for n in range(4, 40)), return_tensors="pt")
    with torch.no_grad():
        ours = policy.eval()(input_ids=prompt.input_ids).logits
        theirs = loaded(input_ids=prompt.input_ids).logits
        before = AutoModelForCausalLM.from_pretrained(folder / "model").eval()(input_ids=prompt.input_ids).logits
    assert (ours - before).abs().max() > 1e-2, "training changed it"
    # Merging adapters adds in another order than the trainer's passes do.
    torch.testing.assert_close(theirs, ours, atol=1e-5 if lora_rank else 0.0, rtol=0.0)
    text = (checkpoint / CARD).read_text()
    assert ("LoRA of rank 4" in text) == bool(lora_rank)


def test_the_card_says_what_the_checkpoint_is_and_how_well_its_latest_steps_went(folder: Path, tmp_path: Path) -> None:
    recipe, record = recipe_of(folder, "algorithm.name = 'gigpo'"), tmp_path / "metrics.jsonl"
    record.write_text(
        "".join(json.dumps({"step": s, "success_rate": s / 100, "mean_episode_length": 9}) + "\n" for s in range(19))
    )
    last = {"step": 19, "success_rate": 0.625, "mean_episode_length": 7.25}
    state = TrainerState(version=20, consumed=[], environment_steps=12345, metrics=last)
    text = ModelCard("job-7", recipe, record).text(state)

    _, front, body = text.split("---\n", 2)
    matter = yaml.safe_load(front)
    assert matter["library_name"] == "transformers" and matter["pipeline_tag"] == "text-generation"
    assert {"gagpo", "gigpo", "maze", "reinforcement-learning"} == set(matter["tags"]) - {"agent"}
    for said in ("# trainer-test, training step 20", "| training steps | 20 of 40 |", "| environment steps | 12,345 |"):
        assert said in body
    assert f"torch {torch.__version__}" in body and 'from_pretrained("step-000020")' in body
    assert "vllm serve step-000020\npython -m vllm.entrypoints.openai.api_server --model step-000020 \\\n" in body
    rows = [line for line in body.splitlines() if line.startswith(("| 1", "| 9"))]
    assert len(rows) == LATEST_STEPS and rows[0] == "| 10 | 10.0% | 9.0 |" and rows[-1] == "| 19 | 62.5% | 7.2 |"
    assert str(folder) not in text, "the folders of the machine that trained it are nobody's business"


def test_a_checkpoint_that_fails_leaves_neither_itself_nor_a_half_written_folder(folder: Path, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, folder / "model", keep=2)
    model = AutoModelForCausalLM.from_pretrained(folder / "model")

    def full(place: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        store.save(model, full, TrainerState(1, []))
    assert list(tmp_path.iterdir()) == []
