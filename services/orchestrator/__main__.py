"""``python -m services.orchestrator``: fill the buffer with a job's groups until the trainer says that it is over.

``--follow`` serves whatever job the trainer service has made the active one, and then the next; ``--job`` and
``--recipe`` serve one job.
"""

import argparse
import os
import sys
from pathlib import Path

import uvicorn

from services.orchestrator.app import create_app
from services.orchestrator.routes import ACCESS
from services.orchestrator.settings import OrchestratorSettings
from shared.buffer import EvictionPolicyError, check_redis
from shared.recipe import RecipeError
from shared.service import Tokens
from shared.service.listening import ListenError
from shared.service.serve import LOG_LEVELS, server_config
from shared.telemetry import LOG_LEVEL, configure_logging


def main() -> int:
    """Parse the command line and serve. 0 when the one job is over or this was told to stop, 1 when it broke off."""
    parser = argparse.ArgumentParser(prog="python -m services.orchestrator", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--follow", action="store_true", help="serve the active job in Redis, then the next, for ever")
    what.add_argument("--job", help="id of the one job to serve, as the trainer has it; goes with --recipe")
    parser.add_argument("--recipe", type=Path, help="the job's recipe (TOML)")
    parser.add_argument("--env-url", required=True, help="env servers, separated by commas")
    parser.add_argument("--policy-url", required=True, help="policy servers, separated by commas")
    parser.add_argument(
        "--redis-url",
        default=os.environ.get("REDIS_URL"),
        required="REDIS_URL" not in os.environ,
        help="the Redis that the trainer reads from (default: REDIS_URL)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8003, help="port to listen on; 0 takes a free one")
    parser.add_argument("--log-level", choices=LOG_LEVELS, help=f"default: {LOG_LEVEL}, or info")
    given = parser.parse_args()
    if given.follow == (given.recipe is not None):
        parser.error("--job and --recipe go together; --follow takes neither")
    try:
        configure_logging("orchestrator", given.log_level)
        tokens = Tokens.from_environment()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    settings = OrchestratorSettings(
        job=given.job,
        recipe=given.recipe,
        env_urls=given.env_url.split(","),
        policy_urls=given.policy_url.split(","),
        redis_url=given.redis_url,
    )
    failed = False

    def on_end(error: BaseException | None) -> None:
        nonlocal failed
        failed = error is not None
        server.should_exit = True

    try:
        app = create_app(settings, on_end)
        config = server_config(
            app, host=given.host, port=given.port, tokens=tokens, access=ACCESS, graceful_timeout_s=1
        )
        check_redis(given.redis_url)
    except RecipeError as error:
        print(error, file=sys.stderr)
        return 1
    except (ListenError, EvictionPolicyError) as error:
        print(error, file=sys.stderr)
        return 2
    server = uvicorn.Server(config)
    server.run()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
