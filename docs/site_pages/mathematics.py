"""Equations: a fenced block of LaTeX becomes MathML, which browsers draw by themselves, without a script or a font."""

from latex2mathml.converter import convert
from markdown import Markdown
from pymdownx.superfences import SuperFencesException


def math_fence(
    source: str, language: str, css_class: str, options: dict[str, str], md: Markdown, **attributes: object
) -> str:
    """A block as SuperFences wants it. Raises `SuperFencesException` where the LaTeX can't be shown."""
    try:
        equation = convert(source.strip(), display="block")
    except Exception as error:  # the converter's errors have no base of their own
        raise SuperFencesException(f"this is no LaTeX that can be shown: {source!r}") from error
    if "\\" in equation or ">&<" in equation:  # what the converter does not know, it passes on as text
        raise SuperFencesException(f"this has a command that can't be shown: {source!r}")
    return f'<div class="math" tabindex="0">{equation}</div>'  # a wide one is scrolled, by keyboard too
