"""How pieces of a page look: as plain text, as rich text with marked buttons, and as HTML."""

from collections.abc import Sequence
from html import escape

from services.env_server.environments.webshop.shopping.piece import Piece, Role

SEPARATOR = " [SEP] "
"""Between the pieces of the plain view."""


def text(pieces: Sequence[Piece]) -> str:
    """The pieces' texts, stripped. A piece of blanks alone stays, as an empty segment."""
    return SEPARATOR.join([piece.text.strip() for piece in pieces])


def text_rich(pieces: Sequence[Piece]) -> str:
    """A line for each piece, unstripped, with its buttons marked."""
    return "".join(map(_line, pieces))


def notices(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """A line for each option that is shown as clicked."""
    return tuple(
        [f"You have clicked {piece.text}.\n" for piece in pieces if piece.role is Role.OPTION and piece.clicked]
    )


def html(pieces: Sequence[Piece]) -> str:
    """An element for each piece. Their visible texts, stripped and joined, are the plain view."""
    return "".join(map(_element, pieces))


def document(body: str, *, search_bar: bool) -> str:
    """A whole HTML document around elements; ``search_bar`` adds the field that a query is typed into."""
    field = '<input type="search" name="query" aria-label="Search">\n' if search_bar else ""
    head = '<meta charset="utf-8">\n<title>WebShop</title>'
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{field}{body}</body>\n</html>\n'


def _line(piece: Piece) -> str:
    marks = ("[clicked button]", "[clicked button_]") if piece.clicked else ("[button]", "[button_]")
    match piece.role:
        case Role.TEXT:
            return f"{piece.text}\n"
        case Role.BUTTON:
            return f"[button] {piece.text} [button_]\n"
        case Role.PRODUCT:
            return f"\n{marks[0]} {piece.text} {marks[1]}\n"
        case Role.OPTION:
            return f"  {marks[0]} {piece.text} {marks[1]}\n"


def _element(piece: Piece) -> str:
    content = escape(piece.text)
    if piece.role is Role.TEXT:
        return f"<{piece.tag}>{content}</{piece.tag}>\n"
    pressed = "" if piece.role is Role.BUTTON else f' aria-pressed="{str(piece.clicked).lower()}"'
    action = escape(f"click[{piece.text.lower()}]")
    return f'<button class="{piece.role.name.lower()}" value="{action}"{pressed}>{content}</button>\n'
