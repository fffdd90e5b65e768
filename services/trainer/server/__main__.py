"""``python -m services.trainer.server``: run the trainer service under uvicorn."""

import argparse
import os
import sys

import uvicorn

from services.trainer.server.app import create_app
from services.trainer.server.routes import ACCESS
from services.trainer.server.settings import TrainerSettings
from shared.buffer import EvictionPolicyError, check_redis
from shared.service import Tokens
from shared.service.listening import ListenError
from shared.service.serve import LOG_LEVELS, server_config
from shared.telemetry import LOG_LEVEL, configure_logging

START_FAILED = 3
SETTINGS = "\n".join(
    f"  GAGPO_TRAINER_{name.upper():<20} {field.description} "
    + ("(required)" if field.is_required() else f"[{field.default}]")
    for name, field in TrainerSettings.model_fields.items()
)
EPILOG = f"""
Settings, each a variable:
{SETTINGS}
  REDIS_URL is another name for the first. GAGPO_TOKEN or GAGPO_TOKEN_JOBS lets other machines in; without one the
  service listens on this machine only.

An example, with Redis, an env server and a policy server running:
  REDIS_URL=redis://127.0.0.1:6379/0 python -m services.trainer.server --port 8000
  gagpo job submit configs/alfworld-cpu.toml --server http://127.0.0.1:8000
"""


def main() -> int:
    """Parse the command line and serve until told to stop; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m services.trainer.server",
        description="The job API: takes recipes, queues them, and trains one at a time.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000); 0 takes a free one")
    parser.add_argument("--log-level", choices=LOG_LEVELS, help=f"default: {LOG_LEVEL}, or info")
    given = parser.parse_args()
    if given.log_level:
        os.environ[LOG_LEVEL] = given.log_level  # the training processes log too
    try:
        configure_logging("trainer")
        settings, tokens = TrainerSettings(), Tokens.from_environment()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return _serve(settings, tokens, given.host, given.port)


def _serve(settings: TrainerSettings, tokens: Tokens, host: str, port: int) -> int:
    failed = False

    def on_failure(error: BaseException) -> None:
        nonlocal failed
        failed = True
        server.should_exit = True

    app = create_app(settings, on_failure)
    try:
        config = server_config(
            app,
            host=host,
            port=port,
            tokens=tokens,
            access=ACCESS,
            graceful_timeout_s=1,  # what is left of ten seconds is the training process's
        )
        check_redis(settings.redis_url)
    except (ListenError, EvictionPolicyError) as error:
        print(error, file=sys.stderr)
        return 2
    server = uvicorn.Server(config)
    server.run()
    return 1 if failed else 0 if server.started else START_FAILED


if __name__ == "__main__":
    sys.exit(main())
