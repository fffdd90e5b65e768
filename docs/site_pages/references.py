"""``python -m site_pages.references``: the pages made from the code, as JSON from their paths to their text.

A process of its own, with an environment of its own: what is set where the site is built does not get into it, and the
development server sees changed code.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

DEADLINE_S = 240
_SETTINGS = {
    "GAGPO_TOKEN": "only-for-the-documents",  # else they would not say which token opens what
    "REDIS_URL": "redis://127.0.0.1:6379/0",
    "GAGPO_POLICY_MODEL": "model",
    "GAGPO_ORCHESTRATOR_REDIS_URL": "redis://127.0.0.1:6379/0",
    "GAGPO_ORCHESTRATOR_ENV_URLS": '["http://127.0.0.1:8001"]',
    "GAGPO_ORCHESTRATOR_POLICY_URLS": '["http://127.0.0.1:8002"]',
}
"""What the services' settings require. Nothing is started or connected to."""


def make_references(root: Path) -> Mapping[str, str]:
    """Markdown by path on the site. Raises `CalledProcessError` where the code can't be imported."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment = {**kept, **_SETTINGS, "PYTHONPATH": f"{root}{os.pathsep}{root / 'docs'}", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", __name__]
    made = subprocess.run(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S, encoding="utf-8"
    )
    pages: dict[str, str] = json.loads(made.stdout)
    return pages


def _rest_pages() -> dict[str, str]:
    from fastapi import FastAPI
    from fastapi.openapi.models import OpenAPI

    from services.env_server.app import create_app as env_server
    from services.env_server.settings import EnvServerSettings
    from services.orchestrator.app import create_app as orchestrator
    from services.orchestrator.settings import OrchestratorSettings
    from services.policy_server.app import create_app as policy_server
    from services.policy_server.settings import PolicySettings
    from services.trainer.server.app import create_app as trainer
    from services.trainer.server.settings import TrainerSettings
    from site_pages.openapi import openapi_page

    def made(title: str, introduction: str, app: FastAPI) -> str:
        return openapi_page(title, introduction, OpenAPI.model_validate(app.openapi()))

    return {
        "reference/rest-env-server.md": made(
            "REST: env server",
            "Every operation and message. [The env server's REST API](../rest-api.md) shows them at work.",
            env_server(EnvServerSettings()),
        ),
        "reference/rest-policy-server.md": made(
            "REST: policy server",
            "What the [policy server](../policy-server.md) has beside vLLM's own OpenAI-compatible routes.",
            policy_server(PolicySettings()),
        ),
        "reference/rest-orchestrator.md": made(
            "REST: orchestrator",
            "What the [orchestrator](../orchestrator.md) tells about itself.",
            orchestrator(OrchestratorSettings(), lambda error: None),
        ),
        "reference/rest-trainer.md": made(
            "REST: trainer",
            "The job API of the [trainer service](../trainer-service.md). [Remote jobs](../jobs.md) shows the commands "
            "and the Python client that use it.",
            trainer(TrainerSettings(), lambda error: None),
        ),
    }


def main() -> None:
    """Print them."""
    from site_pages.commands import commands_page
    from site_pages.recipe import recipe_page
    from site_pages.settings import settings_page

    pages = {
        "reference/recipe.md": recipe_page(),
        "reference/settings.md": settings_page(),
        "reference/cli.md": commands_page(),
        **_rest_pages(),
    }
    json.dump(pages, sys.stdout)


if __name__ == "__main__":
    main()
