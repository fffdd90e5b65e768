"""Settings of the orchestrator, from the command line or ``GAGPO_ORCHESTRATOR_…`` variables."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class OrchestratorSettings(BaseSettings):
    """Which job to serve, and with which servers. Each field's variable is ``GAGPO_ORCHESTRATOR_<FIELD>``."""

    model_config = SettingsConfigDict(
        env_prefix="GAGPO_ORCHESTRATOR_", extra="forbid", use_attribute_docstrings=True, frozen=True
    )

    job: str | None = None
    """Id of the one job to serve, as the trainer has it; without it, whatever job is active in Redis, one by one."""

    recipe: Path | None = None
    """The job's recipe (TOML); goes with ``job``."""

    env_urls: list[str] = Field(min_length=1)
    """Env servers, all with the same data."""

    policy_urls: list[str] = Field(min_length=1)
    """Policy servers, all with the same model."""

    redis_url: str
    """The Redis that the trainer reads from."""

    request_timeout_s: float = Field(default=120.0, gt=0)
    """The longest that one try of a request may take."""

    request_deadline_s: float = Field(default=300.0, gt=0)
    """For how long a request is tried again while no server takes it, before its episode has failed."""

    resume_grace_s: float = Field(default=180.0, ge=0)
    """A job that is over when the orchestrator starts may be about to be resumed: how long to wait for its trainer."""

    lease_s: float = Field(default=10.0, gt=0)
    """Orchestrators share a job by leases on its groups: when the groups of one that died are made by another."""

    trainer_deadline_s: float = Field(default=6 * 3600.0, gt=0)
    """The longest wait for the trainer, for room in the buffer or for new weights, before the job is given up."""

    @model_validator(mode="after")
    def _job_goes_with_recipe(self) -> Self:
        if (self.job is None) != (self.recipe is None):
            raise ValueError("job and recipe go together: give both, or neither to follow the active job in Redis")
        return self
