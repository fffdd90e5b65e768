"""``python -m services.env_server``: run the env server under uvicorn."""

import argparse
import logging

import uvicorn

from services.env_server.app import create_app
from services.env_server.settings import EnvServerSettings


def main() -> None:
    """Parse the command line and serve until told to stop."""
    parser = argparse.ArgumentParser(
        prog="python -m services.env_server",
        description="Serve text environments over HTTP. Everything else is set by GAGPO_ENV_… variables, REDIS_URL, "
        "ALFWORLD_DATA and WEBSHOP_DATA.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8001, help="port to listen on; 0 takes a free one")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    given = parser.parse_args()
    logging.basicConfig(level=given.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = EnvServerSettings()
    uvicorn.run(
        create_app(settings),
        host=given.host,
        port=given.port,
        loop="uvloop",
        http="httptools",
        ws_max_size=settings.max_body_bytes,
        log_level=given.log_level,
        access_log=False,
        timeout_graceful_shutdown=10,
    )


if __name__ == "__main__":
    main()
