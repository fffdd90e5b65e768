"""WebShop in the terminal: numbers to click, words to search for, and the parts of the reward at the end."""

from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from gagpo.playing.screen import experts_steps, verdict
from shared.schemas.environment import InfoValue, Observation, StepResult
from shared.shop_page import Buttons, Clickable, Line, Listed, page_lines

_MARK = "✓"
_PRICE_COLUMN = 18
_PARTS = (
    ("attributes", "r_att", "w_att"),
    ("options", "r_option", "w_option"),
    ("price", "r_price", "w_price"),
)
"""Parts of the reward: the share that was met, and its weight."""


class ShopScreen:
    """Pages with numbered buttons."""

    help = (
        "Type a number to click what it stands at (or the beginning of its text: buy), search WORDS, "
        "or a whole action: click[…]."
    )

    def show(self, console: Console, seen: Observation) -> None:
        """What is wanted, then the page."""
        console.rule(style="dim")
        console.print(Text.assemble(("Wanted: ", "bold"), str(seen.info.get("goal", ""))), soft_wrap=False)
        if "error" in seen.info:
            console.print(f"(the page could not be made: {seen.info['error']})", markup=False)
        for line in page_lines(seen.observation, _clickables(seen)):
            console.print(_drawn(line, console.width), soft_wrap=False)
        if seen.info.get("has_search_bar"):
            console.print(Text("search WORDS", "cyan"))

    def actions(self, console: Console, seen: Observation) -> None:
        """Everything that can be clicked, by number."""
        console.print(_row([Clickable(n, text, False) for n, text in enumerate(_clickables(seen), 1)]), soft_wrap=False)

    def action(self, typed: str, seen: Observation) -> str | None:
        """A number, the beginning of one clickable's text, ``search WORDS``, or an action with its brackets."""
        clickables = _clickables(seen)
        if "[" in typed:
            return typed
        if typed.startswith(("search ", "s ")):
            return f"search[{typed.partition(' ')[2].strip()}]"
        if typed.isdecimal():
            return f"click[{clickables[int(typed) - 1]}]" if 1 <= int(typed) <= len(clickables) else None
        wanted = typed.lower()
        meant = [text for text in clickables if text == wanted] or [
            text for text in clickables if text.startswith(wanted)
        ]
        return f"click[{meant[0]}]" if len(meant) == 1 else None

    def farewell(self, console: Console, result: StepResult) -> None:
        """The score and what it is made of."""
        info = result.info
        if "score" not in info:
            console.print(f"\n[red]Nothing was bought[/red] in {result.step_index} steps{experts_steps(result)}.")
            return
        console.print(f"\n{verdict(result)} in {result.step_index} steps{experts_steps(result)}.")
        console.print(f"score {_number(info['score'])} = type × Σ weight · share met")
        table = Table("part", "met", "weight", box=None, pad_edge=False)
        table.add_row("type", _number(info.get("r_type")), "×")
        for name, met, weight in _PARTS:
            if met in info:
                table.add_row(name, _number(info[met]), _number(info.get(weight)))
        console.print(table)


def _clickables(seen: Observation) -> list[str]:
    listed = seen.info.get("clickables")
    return [str(text) for text in listed] if isinstance(listed, list) else []


def _drawn(line: Line, width: int) -> RenderableType:
    match line:
        case Buttons(buttons):
            return _row(buttons)
        case Listed(button, title, price):
            drawn = Text.assemble(_button(button), f"  {price:<{_PRICE_COLUMN}}  ", title)
            drawn.truncate(width, overflow="ellipsis")
            return drawn
        case text:
            return Text(text)


def _row(buttons: list[Clickable]) -> RenderableType:
    return Columns([_button(button) for button in buttons], padding=(0, 3))


def _button(button: Clickable) -> Text:
    mark = _MARK if button.clicked else ""
    if button.number is None:
        return Text(f"{button.label}{mark}", "dim")
    return Text.assemble((f"{button.number:>2}", "bold cyan"), f" {button.label}{mark}")


def _number(value: InfoValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, int | float) else ""
