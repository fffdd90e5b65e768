"""What vLLM is told for a device, and what is never left to the environment."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_settings import CliApp

from services.policy_server import launch
from services.policy_server.launch import prepare_environment, vllm_arguments
from services.policy_server.settings import Device, PolicySettings

MODEL = Path(__file__).parents[2] / "configs" / "small-policy"


def settings(*flags: str) -> PolicySettings:
    return CliApp.run(PolicySettings, cli_args=["--model", str(MODEL), *flags])


def test_a_cpu_gets_float32_eager_mode_and_a_small_cache() -> None:
    flags = vllm_arguments(settings("--device", "cpu", "--kv-cache-mib", "64"))
    assert {"--dtype=float32", "--enforce-eager", "--block-size=32", f"--kv-cache-memory-bytes={64 << 20}"} <= set(
        flags
    )


@pytest.mark.parametrize(("flags", "tokens"), [([], 4096), (["--max-model-len", "9000"], 9000)])
def test_a_cpu_computes_prompts_whole(flags: list[str], tokens: int) -> None:
    told = vllm_arguments(settings("--device", "cpu", *flags))
    assert {"--no-enable-chunked-prefill", f"--max-num-batched-tokens={tokens}"} <= set(told)


def test_a_gpu_gets_bfloat16_and_its_graphs() -> None:
    flags = vllm_arguments(settings("--device", "cuda", "--tensor-parallel-size", "4"))
    assert {"--dtype=bfloat16", "--tensor-parallel-size=4"} <= set(flags)
    assert "--enforce-eager" not in flags


def test_logprobs_are_asked_for_as_processed_and_weights_go_through_our_registered_engine() -> None:
    flags = vllm_arguments(settings("--device", "cpu"))
    assert "--logprobs-mode=processed_logprobs" in flags
    assert '--weight-transfer-config={"backend": "gagpo"}' in flags


def test_what_the_user_adds_comes_last_and_so_wins() -> None:
    assert vllm_arguments(settings("--device", "cpu", "--vllm-args=--block-size=64"))[-1] == "--block-size=64"


def test_settings_come_from_flags_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGPO_POLICY_MAX_NUM_SEQS", "7")
    monkeypatch.setenv("GAGPO_POLICY_STATS", "false")
    assert settings().max_num_seqs == 7
    assert not settings().stats
    assert settings("--max-num-seqs", "9", "--stats").max_num_seqs == 9


def test_a_value_out_of_range_is_refused_and_named() -> None:
    with pytest.raises(ValidationError, match="gpu_memory_utilization"):
        PolicySettings(model=Path("some/model"), gpu_memory_utilization=2.0)


def test_development_mode_can_not_be_switched_on_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.os, "environ", {"VLLM_SERVER_DEV_MODE": "1", "OMP_WAIT_POLICY": "active"})
    prepare_environment(settings("--device", "cpu", "--threads", "3"))
    assert launch.os.environ["VLLM_SERVER_DEV_MODE"] == "0"
    assert launch.os.environ["OMP_NUM_THREADS"] == "3"
    assert launch.os.environ["OMP_WAIT_POLICY"] == "active", "what the user chose stays"


def test_a_cpu_is_chosen_where_the_cpu_build_is_installed() -> None:
    assert settings().resolved_device() in (Device.CPU, Device.CUDA)
    assert settings("--device", "cuda").resolved_device() is Device.CUDA
    assert settings("--model", "a/b/").model_name() == "b"
    assert os.sched_getaffinity(0)
