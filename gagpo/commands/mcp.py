"""``gagpo mcp``: an MCP server, so that any agent can play the environments."""

import contextlib
import importlib.util
from typing import Annotated

import typer

from gagpo.commands.errors import plain_errors
from gagpo.environment_client import EnvironmentClient
from gagpo.playing import check_known
from gagpo.stack import starting_env_server

_PATIENCE_S = 20.0


def mcp(
    url: Annotated[
        str | None,
        typer.Option(help="URL of a running env server, such as http://localhost:8001. One is started otherwise."),
    ] = None,
    environment: Annotated[
        str | None, typer.Option(help="Offer this environment only, such as alfworld or webshop. All otherwise.")
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP at /mcp instead of stdin and stdout.")
    ] = False,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http: the port to listen on; 0 takes a free one.")] = 8005,
) -> None:
    """Let an agent play environments through MCP: the tools reset, step, observe, list_environments, list_tasks.

    An MCP client starts it by itself. Put this into its configuration:

    {"mcpServers": {"gagpo": {"command": "gagpo", "args": ["mcp", "--environment", "alfworld"]}}}

    Over HTTP, for several agents or for other machines: gagpo mcp --http
    The clients' URL is then http://localhost:8005/mcp

    GAGPO_TOKEN_ENVIRONMENTS (or GAGPO_TOKEN) is shown to the env server.
    With --http agents have to show it as well; without one, only this machine is served.

    Examples: gagpo mcp --environment webshop; gagpo mcp --url http://localhost:8001; gagpo mcp --http
    """
    if importlib.util.find_spec("mcp") is None:
        raise typer.BadParameter("the package mcp is not installed. Install it with: pip install 'gagpo[mcp]'")
    from gagpo.mcp_server import EnvironmentTools, make_server, serve_http  # half a second, for this command alone

    with plain_errors("Stopped."), contextlib.ExitStack() as stack:
        if url is None:
            if environment is not None:
                check_known(environment)
            names = [] if environment is None else [environment]
            url, wait_ready = stack.enter_context(starting_env_server(*names))
        else:
            wait_ready = _is_ready
        client = stack.enter_context(EnvironmentClient(url, patience_s=_PATIENCE_S))
        server = make_server(EnvironmentTools(client, environment, wait_ready))
        if http:
            serve_http(server, host, port, _announce)
        else:
            server.run("stdio")


def _announce(url: str) -> None:
    typer.echo(f"An MCP server is at {url}; Ctrl-C ends it.", err=True)


def _is_ready() -> None:
    """A server that somebody else runs is asked at once, and says by itself what is wrong."""
