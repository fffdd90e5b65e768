"""`gagpo plan`: the simulated rollout, the sums, and what is learnt from a run."""

import json
import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gagpo.cli import app
from gagpo.plan import Plan, PlanError, PlanRequest, make_plan
from gagpo.plan.accelerators import CPU_MEASURED, SMALL_POLICY_PARAMETERS, gpu
from gagpo.plan.costs import GenerationCosts, MovedBytes, TransferCosts, UnitCosts
from gagpo.plan.memory import MemoryNeed
from gagpo.plan.models import model_size
from gagpo.plan.predict import Resources, predict
from gagpo.plan.rollout import RolloutSpeed, Station, simulate_rollout
from gagpo.plan.workload import Workload, workload_of
from shared.recipe import load_recipe, save_recipe

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL_POLICY = CONFIGS / "small-policy"
RECIPE = CONFIGS / "alfworld-cpu.toml"
QWEN = CONFIGS / "alfworld-qwen2.5-1.5b.toml"

COSTS = replace(
    CPU_MEASURED,
    env_step_s=0.01,
    env_open_s=0.0,
    turn_s=0.02,
    generation=GenerationCosts(iteration_s=0.1, decode_s=0.0, prefill_s=0.0),
    shared_machine=False,
)
TWO_CORES = Resources(gpus=0, env_cores=2, policy_servers=1, training_processes=1)
ONE_EACH = Resources(gpus=0, env_cores=1, policy_servers=1, training_processes=1)


def work(**changes: float) -> Workload:
    """Two groups of two episodes, each of five turns of one token."""
    base = replace(
        workload_of(load_recipe(RECIPE)),
        groups=2,
        group_size=2,
        concurrency=1,
        max_turns=5,
        turns=5.0,
        cut_share=1.0,
        prompt_tokens=100.0,
        answer_tokens=1.0,
    )
    return replace(base, **changes)


def rollout(asked: Workload, costs: UnitCosts = COSTS, *, servers: int = 1, cores: int = 1) -> RolloutSpeed:
    """The rollout of one training step, with one orchestrator."""
    return simulate_rollout(asked, costs, policy_servers=servers, env_cores=cores, orchestrators=1, most_running=128)


def test_one_episode_at_a_time_takes_the_sum_of_its_turns() -> None:
    assert rollout(work()).seconds == pytest.approx(4 * 5 * (0.02 + 0.1 + 0.01))


def test_requests_of_one_batch_share_an_iteration() -> None:
    together = rollout(work(concurrency=4)).seconds
    assert together < 0.45 * rollout(work()).seconds
    assert together >= 5 * 0.1


def test_a_core_does_one_step_at_a_time() -> None:
    slow = replace(COSTS, env_step_s=1.0)
    assert rollout(work(concurrency=4), slow).seconds >= 4 * 5 * 1.0
    assert rollout(work(concurrency=4), slow, cores=4).seconds < 4 * 5 * 1.0 / 2
    assert rollout(work(concurrency=4), slow).utilisation[Station.ENVIRONMENT] == pytest.approx(1.0, abs=0.05)


def test_prompts_beyond_the_token_budget_take_more_iterations() -> None:
    fixed_only = rollout(work(concurrency=4, prompt_tokens=10_000.0, whole_history=False)).seconds
    assert fixed_only >= 4 * 5 * 10_000 / 4096 * 0.1


def test_computing_prompts_costs_by_the_token() -> None:
    costs = replace(COSTS, generation=GenerationCosts(0.0, 0.0, prefill_s=1e-3))
    whole = rollout(work(whole_history=False), costs).seconds
    shared = rollout(work(whole_history=True), costs).seconds
    turns = 4 * 5
    assert whole - shared == pytest.approx(turns * 1e-3 * 100 * (1 - 2 / 5))


def test_more_policy_servers_shorten_a_rollout_that_waits_for_generation() -> None:
    costs = replace(COSTS, turn_s=0.0, generation=GenerationCosts(0.0, decode_s=0.1, prefill_s=0.0))
    one, two = (rollout(work(concurrency=4), costs, servers=servers).seconds for servers in (1, 2))
    assert two == pytest.approx(one / 2, rel=0.2)


def test_episode_lengths_have_the_mean_and_the_share_at_the_limit() -> None:
    asked = work(groups=16, group_size=8, max_turns=15, turns=9.6, cut_share=0.25)
    lengths = asked.episode_turns(random.Random(0))
    assert len(lengths) == 128
    assert sum(lengths) / 128 == pytest.approx(9.6, abs=0.3)
    assert lengths.count(15) >= 32


def test_phases_of_a_synchronous_step_add_up_to_it() -> None:
    prediction = predict(work(concurrency=4), COSTS, MovedBytes(1e9, 3e9), ONE_EACH)
    assert sum(prediction.phases.values()) == pytest.approx(prediction.step_s)
    assert not prediction.overlapped


def test_staleness_hides_the_shorter_of_generation_and_training() -> None:
    slow_push = replace(COSTS, push=TransferCosts(fixed_s=100.0, byte_s=0.0))
    prediction = predict(work(max_staleness=1), slow_push, MovedBytes(0.0, 0.0), ONE_EACH)
    assert prediction.overlapped
    assert prediction.bottleneck == "push"
    assert prediction.step_s == pytest.approx(100.0, abs=2.0)
    assert predict(work(max_staleness=1), COSTS, MovedBytes(0.0, 0.0), ONE_EACH).bottleneck == "generation"


def test_on_one_shared_machine_staleness_gains_nothing() -> None:
    shared = replace(COSTS, shared_machine=True)
    ahead, in_turns = (predict(work(max_staleness=n), shared, MovedBytes(1e6, 3e6), ONE_EACH).step_s for n in (1, 0))
    assert ahead == in_turns


def test_the_size_of_the_small_policy_is_that_of_its_file() -> None:
    with (SMALL_POLICY / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    shapes = {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}
    matrices = sum(shape[0] * shape[1] for shape in shapes.values() if len(shape) == 2)
    assert model_size(SMALL_POLICY).parameters == matrices == SMALL_POLICY_PARAMETERS


def test_published_models_have_the_size_in_their_name() -> None:
    for name, billions in (
        ("Qwen2.5-0.5B-Instruct", 0.49),
        ("Qwen2.5-1.5B-Instruct", 1.54),
        ("Qwen2.5-7B-Instruct", 7.6),
    ):
        assert model_size(Path("models") / name).parameters == pytest.approx(1e9 * billions, rel=0.02)
    with pytest.raises(PlanError, match="--model"):
        model_size(Path("models/unheard-of"))


def test_gpus_are_shared_out_so_that_the_step_is_shortest() -> None:
    recipe = load_recipe(QWEN, ["rollout.groups_per_step=4", "sampling.max_tokens=128"])
    best = make_plan(PlanRequest(recipe, gpus=4, env_cores=8, accelerator=gpu("h100")))
    assert best.resources.policy_servers + best.resources.training_processes == 4
    for servers in (1, 2, 3):
        other = make_plan(PlanRequest(recipe, gpus=4, env_cores=8, accelerator=gpu("h100"), policy_servers=servers))
        assert best.prediction.step_s <= other.prediction.step_s
    with pytest.raises(PlanError, match="at most 3"):
        make_plan(PlanRequest(recipe, gpus=4, env_cores=8, accelerator=gpu("h100"), policy_servers=4))


def test_what_does_not_fit_into_memory_is_said() -> None:
    recipe = load_recipe(QWEN, ['model.path="models/Qwen2.5-7B-Instruct"'])
    plan = make_plan(PlanRequest(recipe, gpus=2, env_cores=8, accelerator=gpu("l4")))
    assert any("training takes" in warning for warning in plan.warnings)
    assert plan.resources.most_running < 128


def test_adapters_take_no_moments_of_frozen_weights_and_no_second_model() -> None:
    def memory(*overrides: str) -> MemoryNeed:
        recipe = load_recipe(QWEN, overrides)
        return make_plan(PlanRequest(recipe, 2, 8, gpu("h100"), policy_servers=1)).memory

    size = model_size(Path("models/Qwen2.5-1.5B-Instruct"))
    # 28 layers; query and output 1536 × 1536, key and value 1536 × 256, three of the MLP 1536 × 8960.
    adapters = 8 * 28 * (2 * (1536 + 1536) + 2 * (1536 + 256) + 3 * (1536 + 8960))
    assert size.adapter_parameters(8, "all-linear") == adapters
    assert size.adapter_parameters(4, ["q_proj", "v_proj"]) == 4 * 28 * (1536 + 1536 + 1536 + 256)
    whole, lora = memory(), memory("model.lora_rank = 8")
    # bfloat16: weights and gradients in float32, a copy that computes, the reference; two moments.
    assert whole.trainer_weights == size.parameters * (4 + 4 + 2 + 2)
    assert whole.optimizer == size.parameters * 8
    # The frozen weights are copy and reference in one.
    assert lora.trainer_weights == size.parameters * 2 + adapters * (4 + 4)
    assert lora.optimizer == adapters * 8
    assert lora.activations == whole.activations


def test_a_critic_is_a_second_network_that_sees_every_prompt_twice() -> None:
    def plan(*overrides: str) -> Plan:
        return make_plan(PlanRequest(load_recipe(QWEN, overrides), 2, 8, gpu("h100"), policy_servers=1))

    alone, ppo = plan(), plan('algorithm.name="ppo"')
    parameters, work = model_size(Path("models/Qwen2.5-1.5B-Instruct")).parameters, ppo.workload
    # In bfloat16: weights and gradients in float32, a copy that computes; two moments.
    assert ppo.memory.trainer_weights - alone.memory.trainer_weights == parameters * (4 + 4 + 2)
    assert ppo.memory.optimizer == 2 * alone.memory.optimizer
    # Values by a forward pass, and an update; an action's tokens are not looked at.
    passes = ppo.costs.training.forward_token_s + ppo.costs.training.update_token_s
    assert ppo.prediction.phases["critic"] == pytest.approx(work.samples * work.prompt_tokens * passes)
    assert "critic" not in alone.prediction.phases


def test_frozen_weights_cost_an_update_no_gradients_and_a_push_no_float32() -> None:
    def plan(*overrides: str) -> Plan:
        return make_plan(PlanRequest(load_recipe(QWEN, overrides), 2, 8, gpu("h100"), policy_servers=1))

    whole, lora = plan(), plan("model.lora_rank = 8")
    # Recomputed forward pass included, 4 parts of arithmetic become 3.
    assert lora.prediction.phases["update"] == pytest.approx(whole.prediction.phases["update"] * 3 / 4)
    assert lora.moved.pushed == whole.moved.pushed / 2


def test_a_checkpoint_holds_the_moments_of_what_is_trained_alone() -> None:
    def plan(*overrides: str) -> Plan:
        return make_plan(PlanRequest(load_recipe(QWEN, overrides), 2, 8, gpu("h100"), policy_servers=1))

    whole, lora = plan(), plan("model.lora_rank = 8")
    size = model_size(Path("models/Qwen2.5-1.5B-Instruct"))
    assert whole.moved.saved == size.parameters * 4 * 3
    # Merged in bfloat16, and in float32 the adapters by themselves with their two moments: a sixth of the other.
    assert lora.moved.saved == size.parameters * 2 + size.adapter_parameters(8, "all-linear") * 4 * 3
    assert lora.moved.saved < whole.moved.saved / 5.5
    slow_disk = replace(lora.costs, checkpoint=TransferCosts(0.0, 1e-6))
    asked = replace(lora.workload, checkpoint_every=1, max_staleness=1)
    told = predict(asked, slow_disk, lora.moved, lora.resources).phases["checkpoint"]
    assert told == pytest.approx(1e-6 * lora.moved.saved)


def _write_run(folder: Path, *, waited: float, update: float, staleness: int = 0) -> None:
    folder.mkdir()
    save_recipe(load_recipe(RECIPE, [f"rollout.max_staleness={staleness}"]), folder / "recipe.toml")
    line = {
        "samples": 1152,
        "episodes": 128,
        "mean_episode_length": 9.0,
        "truncated_share": 0.2,
        "tokens_generated": 4608,
        "tokens_trained": 57600,
        "seconds_wait": waited,
        "seconds_old_logprobs": 0.0,
        "seconds_update": update,
        "seconds_push": 0.2,
        "seconds_checkpoint": 0.0,
        "seconds_total": waited + update + 0.3,
    }
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for _ in range(4)))


def test_costs_from_a_run_predict_that_run(tmp_path: Path) -> None:
    _write_run(tmp_path / "run", waited=6.0, update=2.0)
    recipe = load_recipe(RECIPE)
    plan = make_plan(
        PlanRequest(
            recipe, gpus=0, env_cores=2, accelerator=gpu("h100"), measured=tmp_path / "run", measured_with=TWO_CORES
        )
    )
    assert plan.workload.measured
    assert plan.workload.prompt_tokens == pytest.approx(46.0)
    assert plan.prediction.phases["update"] == pytest.approx(2.0)
    assert plan.prediction.step_s == pytest.approx(6.0 + 2.0 + 0.3, rel=0.02)
    assert not plan.costs.estimated


def test_a_run_that_says_too_little_is_refused(tmp_path: Path) -> None:
    request = PlanRequest(
        load_recipe(RECIPE), gpus=0, env_cores=2, accelerator=gpu("h100"), measured=tmp_path, measured_with=TWO_CORES
    )
    with pytest.raises(PlanError, match=r"no metrics\.jsonl"):
        make_plan(request)
    _write_run(tmp_path / "ahead", waited=6.0, update=2.0, staleness=1)
    with pytest.raises(PlanError, match="max_staleness = 1"):
        make_plan(replace(request, measured=tmp_path / "ahead"))
    _write_run(tmp_path / "run", waited=0.05, update=2.0)
    with pytest.raises(PlanError, match="no speed of generation explains"):
        make_plan(replace(request, measured=tmp_path / "run"))


def test_the_command_prints_a_table_and_json() -> None:
    table = CliRunner().invoke(app, ["plan", str(RECIPE), "--env-cores", "2"])
    assert table.exit_code == 0, table.output
    assert "bottleneck: generation" in table.output
    printed = CliRunner().invoke(app, ["plan", str(RECIPE), "--json", "--set", "rollout.concurrency=8"])
    assert json.loads(printed.output)["workload"]["concurrency"] == 8
    wrong = CliRunner().invoke(app, ["plan", str(RECIPE), "--gpu", "h1000"])
    assert wrong.exit_code == 1
