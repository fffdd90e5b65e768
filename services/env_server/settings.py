"""Settings of the env server, from the environment (``GAGPO_ENV_…``) or the command line."""

import os
from pathlib import Path
from typing import Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.service import without_tokens


class EnvServerSettings(BaseSettings):
    """Everything that an operator can set. Each field's variable is ``GAGPO_ENV_<FIELD>`` unless it says otherwise."""

    model_config = SettingsConfigDict(
        env_prefix="GAGPO_ENV_", extra="forbid", populate_by_name=True, use_attribute_docstrings=True
    )

    environments: dict[str, str] = Field(default_factory=dict)
    """Environments beside those found by entry point, as JSON: name → ``module:Class``. A name given here wins."""

    serve: list[str] | None = None
    """Names of the environments to serve, as a JSON list; all that are registered when unset."""

    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=1024)
    """Worker processes that hold the environments; one per core by default."""

    max_sessions: int = Field(default=8192, ge=1)
    """Sessions held by this server at once; past it, opening answers 503 with Retry-After."""

    max_pending_items: int = Field(default=65_536, ge=1)
    """Steps and openings waiting for workers at once; past it, requests answer 503 with Retry-After."""

    session_ttl_s: float = Field(default=3600.0, gt=0)
    """A session that nobody touched for so long is forgotten, here and in the journal. Seconds."""

    reap_every_s: float = Field(default=10.0, gt=0)
    """How often expired sessions are looked for. Seconds."""

    step_deadline_s: float = Field(default=10.0, gt=0)
    """The longest that one step of one session may take before its worker is killed and replaced. Seconds."""

    open_deadline_s: float = Field(default=60.0, gt=0)
    """The longest that loading and resetting one task may take. Seconds."""

    worker_start_deadline_s: float = Field(default=120.0, gt=0)
    """The longest that a worker may take to start and to load its environments. Seconds."""

    retry_after_s: int = Field(default=5, ge=1)
    """What Retry-After says when the server is full or a part of it is away. Seconds."""

    max_body_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    """The largest request body and WebSocket message that is read. Bytes."""

    journal_prefix: str = "gagpo:env"
    """Redis keys of the journal are ``<prefix>:sessions:<session id>``. Replicas that share sessions share it."""

    journal_deadline_s: float = Field(default=10.0, gt=0)
    """The longest wait for one answer of Redis before the request fails with 503. Seconds."""

    redis_url: str | None = Field(default=None, validation_alias=AliasChoices("REDIS_URL", "GAGPO_ENV_REDIS_URL"))
    """The Redis that keeps the sessions' journal; without it the journal is lost with this process."""

    alfworld_data: Path | None = Field(
        default=None, validation_alias=AliasChoices("ALFWORLD_DATA", "GAGPO_ENV_ALFWORLD_DATA")
    )
    """Folder of ALFWorld's games."""

    webshop_data: Path | None = Field(
        default=None, validation_alias=AliasChoices("WEBSHOP_DATA", "GAGPO_ENV_WEBSHOP_DATA")
    )
    """Folder of WebShop's products and goals."""

    @model_validator(mode="after")
    def _empty_means_unset(self) -> Self:
        """``REDIS_URL=`` in a compose file means "no Redis", not a URL of no characters."""
        if self.redis_url == "":
            self.redis_url = None
        return self

    def worker_environment(self) -> dict[str, str]:
        """The environment variables that a worker's environments read their data folders from."""
        variables = without_tokens(os.environ)
        if self.alfworld_data is not None:
            variables["ALFWORLD_DATA"] = str(self.alfworld_data)
        if self.webshop_data is not None:
            variables["WEBSHOP_DATA"] = str(self.webshop_data)
        return variables
