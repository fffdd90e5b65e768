"""What vLLM is told: environment variables and the flags of ``vllm serve``, chosen from the settings and the device."""

import json
import os
from pathlib import Path

from services.policy_server.settings import Device, PolicySettings, usable_cores

WEIGHT_BACKEND = "gagpo"
"""Name under which `services.policy_server.weight_engine` registers with vLLM."""

PARENT_PID = "GAGPO_POLICY_SERVER_PID"
"""Variable that tells the engine's processes whose end is also theirs."""


def prepare_environment(settings: PolicySettings) -> None:
    """Set what vLLM reads from the environment. Must run before vLLM is imported; what the user set stays."""
    chosen = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": settings.log_level,
        "VLLM_LOGGING_CONFIG_PATH": str(Path(__file__).with_name("vllm_logging.json")),
        "NO_COLOR": "1",
    }
    if settings.resolved_device() is Device.CPU:
        chosen |= {
            # Eager mode compiles nothing; without this the log-prob kernel alone would want a C++ compiler.
            "TORCHDYNAMO_DISABLE": "1",
            # Threads that wait do not spin. Beside a busy process, spinning ones cost nine tenths of the throughput
            # (290 requests/s became 40 on two cores); alone, they gain nothing here.
            "OMP_WAIT_POLICY": "passive",
            "OMP_NUM_THREADS": str(usable_cores()),
        }
        if _parallel(settings):
            # vLLM would bind each worker's threads to a NUMA node of its own, and refuses where there are too few.
            chosen["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        else:
            # The engine's scheduler and its one worker share a process: between two processes every step costs a
            # round trip, which a small model feels, and the start costs a third import of torch.
            chosen["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        if settings.threads is not None:
            os.environ["OMP_NUM_THREADS"] = str(settings.threads)
    for name, value in chosen.items():
        os.environ.setdefault(name, value)
    # These are not the user's to set: the routes of vLLM's development mode run any code, and the engine's
    # processes watch the server's process.
    os.environ["VLLM_SERVER_DEV_MODE"] = "0"
    os.environ[PARENT_PID] = str(os.getpid())


def _parallel(settings: PolicySettings) -> bool:
    """Whether the engine has several workers, by a setting of this server or of vLLM's own."""
    return settings.tensor_parallel_size > 1 or any("-parallel-size" in argument for argument in settings.vllm_args)


def vllm_arguments(settings: PolicySettings) -> list[str]:
    """The flags of ``vllm serve`` for these settings."""
    flags = [
        f"--model={settings.model}",
        f"--served-model-name={settings.model_name()}",
        f"--max-num-seqs={settings.max_num_seqs}",
        f"--seed={settings.seed}",
        # The log-probs of what was sampled from: after temperature, top-k and top-p.
        "--logprobs-mode=processed_logprobs",
        # Sampling is what the request says, not what the model's folder suggests.
        "--generation-config=vllm",
        f"--weight-transfer-config={json.dumps({'backend': WEIGHT_BACKEND})}",
        "--worker-extension-cls=services.policy_server.weight_engine.WeightEngineExtension",
        f"--tensor-parallel-size={settings.tensor_parallel_size}",
        "--enable-prefix-caching" if settings.prefix_caching else "--no-enable-prefix-caching",
    ]
    if settings.max_model_len is not None:
        flags.append(f"--max-model-len={settings.max_model_len}")
    if not settings.stats:
        flags.append("--disable-log-stats")
    if settings.resolved_device() is Device.CPU:
        flags += [
            f"--dtype={settings.dtype or 'float32'}",
            "--enforce-eager",
            # Of a prompt that is split over steps vLLM throws away what it sampled too early, and turns the request's
            # generator back: one of a CPU cannot be, and the engine dies. So prompts stay whole here.
            "--no-enable-chunked-prefill",
            f"--max-num-batched-tokens={max(settings.max_num_batched_tokens, settings.longest_sequence())}",
            "--block-size=32",
            f"--kv-cache-memory-bytes={settings.kv_cache_mib << 20}",
        ]
    else:
        flags += [
            f"--dtype={settings.dtype or 'bfloat16'}",
            f"--gpu-memory-utilization={settings.gpu_memory_utilization}",
            f"--max-num-batched-tokens={settings.max_num_batched_tokens}",
        ]
    return flags + settings.vllm_args
