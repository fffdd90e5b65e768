"""``python -m services.env_server``: run the env server under uvicorn."""

import argparse
import os
import sys

import uvicorn

from services.env_server.app import create_app
from services.env_server.routes import ACCESS
from services.env_server.settings import EnvServerSettings
from shared.buffer import EvictionPolicyError, check_redis
from shared.service import Tokens
from shared.service.listening import ListenError
from shared.service.serve import LOG_LEVELS, server_config
from shared.telemetry import LOG_LEVEL, configure_logging

START_FAILED = 3


def main() -> int:
    """Parse the command line and serve until told to stop; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m services.env_server",
        description="Serve text environments over HTTP. Everything else is set by GAGPO_ENV_… variables, REDIS_URL, "
        "ALFWORLD_DATA and WEBSHOP_DATA; GAGPO_TOKEN or GAGPO_TOKEN_ENVIRONMENTS lets other machines in.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8001, help="port to listen on; 0 takes a free one")
    parser.add_argument("--log-level", choices=LOG_LEVELS, help=f"default: {LOG_LEVEL}, or info")
    given = parser.parse_args()
    if given.log_level:
        os.environ[LOG_LEVEL] = given.log_level  # the workers log too
    try:
        configure_logging("env_server")
        settings, tokens = EnvServerSettings(), Tokens.from_environment()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    app = create_app(settings)
    try:
        config = server_config(
            app,
            host=given.host,
            port=given.port,
            tokens=tokens,
            access=ACCESS,
            graceful_timeout_s=6,  # with the workers' own, all is over within ten seconds
            max_message_bytes=settings.max_body_bytes,
        )
        if settings.redis_url is not None:
            check_redis(settings.redis_url)
    except (ListenError, EvictionPolicyError) as error:
        print(error, file=sys.stderr)
        return 2
    server = uvicorn.Server(config)
    server.run()
    return 0 if server.started else START_FAILED


if __name__ == "__main__":
    sys.exit(main())
