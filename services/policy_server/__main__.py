"""``python -m services.policy_server --model DIR``: run the server until it is told to stop."""

import signal
import socket
import sys

import uvicorn
from pydantic import ValidationError
from pydantic_settings import CliApp

from services.policy_server.app import create_app
from services.policy_server.settings import PolicySettings
from services.policy_server.stderr_tail import StderrTail


def main() -> int:
    """Run the server; the exit status."""
    try:
        settings = CliApp.run(PolicySettings, cli_args=sys.argv[1:])
    except ValidationError as error:
        for fault in error.errors():
            print(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}", file=sys.stderr)
        return 2
    if not (settings.model / "config.json").is_file():
        print(f"model: {settings.model} is not a model's folder (it has no config.json)", file=sys.stderr)
        return 2
    tail = StderrTail()
    tail.start()
    failures: list[str] = []
    server: uvicorn.Server | None = None

    def on_failure(reason: str) -> None:
        # On Ctrl-C the engine's process, which the terminal told too, may be the first to go.
        if server is not None and not server.should_exit:
            failures.append(reason)
            server.should_exit = True

    listener = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        print(f"port: can't listen on {settings.host}:{settings.port}: {error.strerror}", file=sys.stderr)
        return 2
    config = uvicorn.Config(
        create_app(settings, on_failure),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=settings.graceful_timeout,
    )
    server = uvicorn.Server(config)
    stop_on_signals(server)
    print(f"policy server on http://{settings.host}:{listener.getsockname()[1]}, loading {settings.model}", flush=True)
    server.run(sockets=[listener])
    if failures:
        print(f"\nThe policy server stopped: {failures[0]}", file=tail.stream)
        for line in tail.reasons():
            print(f"  vLLM: {line}", file=tail.stream)
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
