"""``python -m services.policy_server --model DIR``: run the server until it is told to stop."""

import logging
import os
import signal
import sys
from functools import partial

import uvicorn
from pydantic import ValidationError
from pydantic_settings import CliApp

from services.policy_server.app import create_app
from services.policy_server.routes import ACCESS
from services.policy_server.settings import PolicySettings
from services.policy_server.stderr_tail import StderrTail, as_json, shortened
from services.policy_server.vllm_logging import SERVICE
from shared.service import Tokens
from shared.service.listening import ListenError, listener
from shared.service.serve import server_config
from shared.telemetry import LOG_FORMAT, configure_logging, log_format

logger = logging.getLogger("services.policy_server")


def main() -> int:
    """Run the server; the exit status."""
    try:
        settings = CliApp.run(PolicySettings, cli_args=sys.argv[1:])
        tokens = Tokens.from_environment()
        os.environ[LOG_FORMAT] = log_format(sys.stderr)  # before the pipe below hides a terminal from vLLM
    except ValidationError as error:
        for fault in error.errors():
            print(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if not (settings.model / "config.json").is_file():
        print(f"model: {settings.model} is not a model's folder (it has no config.json)", file=sys.stderr)
        return 2
    return serve(settings, tokens)


def serve(settings: PolicySettings, tokens: Tokens) -> int:
    """Serve until told to stop, or until the engine fails; the exit status."""
    tail = StderrTail(show=partial(as_json, SERVICE)) if os.environ[LOG_FORMAT] == "json" else StderrTail()
    configure_logging(SERVICE, stream=tail.stream)
    logging.getLogger("vllm").setLevel(settings.log_level)  # vLLM sets it too, but not before it has spoken
    tail.start()
    failures: list[str] = []

    def on_failure(reason: str) -> None:
        # On Ctrl-C the engine's process, which the terminal told too, may be the first to go.
        if not server.should_exit:
            failures.append(reason)
            server.should_exit = True

    app = create_app(settings, on_failure)
    try:
        config = server_config(
            app,
            host=settings.host,
            port=settings.port,
            tokens=tokens,
            access=ACCESS,
            graceful_timeout_s=settings.graceful_timeout,
        )
        bound = listener(config.host, config.port)
    except ListenError as error:
        print(error, file=tail.stream)
        return 2
    server = uvicorn.Server(config)
    stop_on_signals(server)
    logger.info("http://%s:%d, loading %s", config.host, bound.getsockname()[1], settings.model)
    server.run(sockets=[bound])
    if failures:
        reasons = "".join(f"\n  vLLM: {line}" for line in tail.reasons())
        logger.critical("The policy server stopped: %s%s", shortened(failures[0]), reasons)
        return 1
    return 0


def stop_on_signals(server: uvicorn.Server) -> None:
    """Let SIGTERM and SIGINT end the server also before Uvicorn listens to them, and do nothing more after it did."""

    def stop(*_: object) -> None:
        server.should_exit = True

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)


if __name__ == "__main__":
    sys.exit(main())
