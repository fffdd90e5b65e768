"""Prompt templates: jinja files with a small TOML header, shipped in ``templates/`` or brought along by path."""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import jinja2
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = Path(__file__).parent / "templates"


class TemplateError(ValueError):
    """A template that is not there, or whose header is wrong."""


class PromptFormat(StrEnum):
    """What becomes of the rendered text."""

    PLAIN = "plain"
    """It is the prompt."""
    CHAT = "chat"
    """It is the user's message, put into the model's own chat template."""


class ActionFormat(StrEnum):
    """Where the action stands in what the policy generates."""

    WHOLE = "whole"
    """The whole text is the action."""
    TAGGED = "tagged"
    """Between the last ``<action>`` and its ``</action>``."""


class _Header(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    format: PromptFormat
    action: ActionFormat
    about: str = ""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A compiled template and its header."""

    format: PromptFormat
    action: ActionFormat
    body: jinja2.Template


def load_template(name: str) -> PromptTemplate:
    """The shipped template of that name, or the file at that path. Raises `TemplateError`.

    The file begins with a jinja comment that holds TOML: ``format`` (``plain``, ``chat``), ``action`` (``whole``,
    ``tagged``), ``about``. The rest sees ``task``, ``initial_observation``, ``history`` (turns with ``index``,
    ``observation``, ``action``, oldest first), ``observation``, ``admissible`` (empty when the recipe hides it) and
    ``step_index``.
    """
    path = Path(name) if name.endswith(".jinja") else TEMPLATES / f"{name}.jinja"
    if not path.is_file():
        shipped = ", ".join(sorted(file.stem for file in TEMPLATES.glob("*.jinja")))
        raise TemplateError(
            f"prompt.template = {name!r}: no such template; shipped: {shipped}, or a path to a .jinja file"
        )
    text = path.read_text()
    start, end = text.find("{#"), text.find("#}")
    if start != 0 or end < 0:
        raise TemplateError(f"{path} has to begin with a header {{# format = …, action = … #}}")
    try:
        header = msgspec.convert(tomllib.loads(text[2:end]), _Header)
        body = _environment().from_string(text[end + 2 :].lstrip("\n"))
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, jinja2.TemplateSyntaxError) as error:
        raise TemplateError(f"{path}: {error}") from error
    return PromptTemplate(header.format, header.action, body)


def _environment() -> ImmutableSandboxedEnvironment:
    return ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, autoescape=False
    )
