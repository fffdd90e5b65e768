"""Settings of the trainer service, from ``GAGPO_TRAINER_…`` variables."""

from pathlib import Path

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class TrainerSettings(BaseSettings):
    """Everything that an operator can set. Each field's variable is ``GAGPO_TRAINER_<FIELD>``."""

    model_config = SettingsConfigDict(
        env_prefix="GAGPO_TRAINER_",
        extra="forbid",
        env_ignore_empty=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    redis_url: str = Field(validation_alias=AliasChoices("REDIS_URL", "GAGPO_TRAINER_REDIS_URL"), min_length=1)
    """The Redis that keeps the jobs and carries their groups (``REDIS_URL``)."""

    runs: Path = Path("runs")
    """Folder of the jobs' run folders: checkpoints, metrics, logs. Keep it on a disk that outlives this process."""

    env_url: str = "http://127.0.0.1:8001"
    """Env servers, separated by commas; asked which environments there are."""

    policy_url: str = "http://127.0.0.1:8002"
    """Policy servers, separated by commas; asked for their model, and given the weights."""

    orchestrator_url: str = "http://127.0.0.1:8003"
    """Orchestrators, separated by commas; the dashboard asks them how they are."""

    model: Path | None = None
    """Folder of the policy servers' model as this machine sees it; the path that they have it at when unset."""

    nproc: int = Field(default=1, ge=1)
    """Training processes on this machine, one a GPU; more than one are started by torchrun."""

    threads: int = Field(default=0, ge=0)
    """torch threads of a training process; 0 leaves it to torch."""

    weights_host: str = "127.0.0.1"
    """Address at which policy servers reach this machine, for ``weights.transport = "http"``."""

    step_deadline_s: float = Field(default=3600.0, gt=0)
    """Longest wait for the groups of one training step before the job has failed. Seconds."""

    restarts: int = Field(default=3, ge=0)
    """How often in a row a training process that was killed is started again without a training step done between."""

    restart_wait_s: float = Field(default=2.0, ge=0)
    """Wait before the first such restart; each further one waits twice as long. Seconds."""

    stop_deadline_s: float = Field(default=8.0, gt=0)
    """How long a training process may take to stop in good order before it is killed. Seconds."""

    servers_deadline_s: float = Field(default=10.0, gt=0)
    """How long a submission waits for the other servers' answers. Seconds."""

    heartbeat_s: float = Field(default=10.0, gt=0, le=20)
    """A stream of events or of a log says at least that it is alive so often. Seconds."""

    evaluate: bool = True
    """Evaluate the policy before and after training, where the recipe asks for it."""

    @property
    def env_urls(self) -> list[str]:
        """The env servers' base URLs."""
        return _urls(self.env_url)

    @property
    def policy_urls(self) -> list[str]:
        """The policy servers' base URLs."""
        return _urls(self.policy_url)

    @property
    def orchestrator_urls(self) -> list[str]:
        """The orchestrators' base URLs."""
        return _urls(self.orchestrator_url)

    def run_folder(self, job: str) -> Path:
        """Where a job's files lie."""
        return self.runs.resolve() / job


def _urls(given: str) -> list[str]:
    return [url.strip().rstrip("/") for url in given.split(",") if url.strip()]
