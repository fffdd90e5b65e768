"""The reference of the command line, from the Typer app."""

from collections.abc import Iterator

import typer
from typer.core import TyperCommand, TyperGroup

from gagpo.cli import app
from site_pages.markdown import code, fenced, one_line, page, table

_HELP = "--help"


def commands_page() -> str:
    """The page: each command with its arguments, options and subcommands."""
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    return page("Command line reference", *_command(command, "gagpo", depth=1))


def _command(command: TyperCommand | TyperGroup, name: str, depth: int) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    if depth > 1:
        yield f"{'#' * depth} `{name}`"
    yield _paragraphs(command.help or "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield fenced(f"{name} {usage}", "console")
    records = [(given.param_type_name, given.get_help_record(context)) for given in command.get_params(context)]
    for kind in ("argument", "option"):
        shown = [record for one, record in records if one == kind and record and _HELP not in record[0]]
        yield table((kind, "meaning"), [(code(flags), one_line(meaning)) for flags, meaning in shown])
    if isinstance(command, TyperGroup):
        inner = [(f"{name} {one}", command.get_command(context, one)) for one in command.list_commands(context)]
        rows = [(f"[`{path}`](#{path.replace(' ', '-')})", _summary(one.help)) for path, one in inner if one]
        yield table(("command", "what it does"), rows)
        for path, one in inner:
            assert isinstance(one, TyperCommand | TyperGroup)
            yield from _command(one, path, depth + 1)


def _summary(text: str | None) -> str:
    return one_line((text or "").split("\n\n")[0])


def _paragraphs(text: str) -> str:
    return "\n\n".join(one_line(paragraph) for paragraph in text.split("\n\n"))
