"""What the command lines of the environments' data have in common."""

import typer

from services.env_server.environments.base import EnvironmentDataError


def data_app() -> typer.Typer:
    """An app to add commands to."""
    return typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False, rich_markup_mode=None
    )


def run(app: typer.Typer) -> None:
    """Run the app, with errors about data as one line instead of a traceback."""
    try:
        app()
    except EnvironmentDataError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None
