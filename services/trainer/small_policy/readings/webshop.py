"""WebShop as a small policy reads it: what the generator's simple style says, phrase by phrase.

Pages of the shop repeat a lot. The policy reads a page of ten results in about 90 tokens: for every product its asin,
its two attributes and its kind, a token each, and the price, rounded down to tens. Buttons, brands, and the goal after
the first page are left out, and a product's page that is shown again because an option was chosen is one sign. Actions
are never abridged: they decode to the exact text.
"""

from collections.abc import Iterator
from string import ascii_lowercase, digits

from services.trainer.small_policy.reading import Reading, Rewrite, any_of
from services.trainer.small_policy.readings.webshop_words import (
    ATTRIBUTES,
    BRANDS,
    DETAILS,
    GROUPS,
    KINDS,
    LOOKS,
    VALUES,
)

BUTTONS = ("back to search", "buy now", "description", "features", "reviews", "next >", "< prev")
CLICKS = tuple(f"click[{button}]" for button in BUTTONS)
"""Actions that are one token each."""

MARKS = (">", "search[", "click[", "]", ",")

SIGNS = ("goal", "below", "results", "item", "chosen", "seen", "upward")
"""What the rewrites below say in place of the shop's own words."""

GRAMMAR = ("with", "for", "that", "is", "are", "and", "a", "an", "to", "in", "the", "i", "need", "should", "be", "of")

HEADING = r"Instruction: *\n[^\n]*\n\[button\] Back to Search \[button_\]\n"
ITEM_END = r"\[button\] Description \[button_\][\s\S]*?\[button\] Buy Now \[button_\]"
OPENERS = (
    r"(?i:find me|show me|i need|i want to buy|i want|get me|look for|i am looking for|i'm looking for|can you find me"
    r"|i would like|please get me|looking for|help me find)"
)

REWRITES = (
    (rf"WebShop\nInstruction: *\n{OPENERS}?", " goal "),
    (r"\[button\] Search \[button_\]", ""),
    (rf"(You have clicked [^\n]*\n)+Instruction:[\s\S]*?{ITEM_END}", " chosen "),
    (r"(?<=button_\]\n)[A-Z][a-z]+ (?=[A-Z])", ""),  # a title's brand, which no goal asks for
    (rf"{HEADING}Page \d+ [^\n]*", " results "),
    (HEADING, " item "),
    (r"\[button\] (Next >|< Prev) \[button_\]\n", ""),
    (ITEM_END, ""),
    (r"\nPrice: ", " "),
    (r"\nRating: [^\n]*", ""),
    (r"\b(with|for) (?=[A-Z])", ""),
    (r"\[clicked button\]", " seen "),
    (r"\[(clicked )?button_?\]", " "),
    (r"(?<=\b[Bb]0\d{6})(?=\d\d\b)", "₃"),
    (r"(?<=\b[Bb]0\d{4})(?=\d\d₃)", "₂"),
    (r"(?<=\b[Bb]0\d\d)(?=\d\d₂)", "₁"),
    (r"(?<=\d) to \$[\d.]+", " upward "),
    (r"(?<=\$\d|\$\d\d)\d\.\d+", "0"),
    (r"\$\d\.\d+", "$0"),
    (r"\$\d{3,}\.\d+", "$990"),
    (r", and price lower than", " below "),
    (r"\.00 dollars", " "),
    (r"(?<=color|size|style|flavor name|scent|plug type|fit type): ", " "),
)
"""The shop's words → what the policy reads; tried in this order."""

TENS = tuple(str(tens) for tens in range(0, 1000, 10))
"""Caps of prices, and with a ``$`` prices: 990 and more are one."""

ASIN_PARTS = ("b0", "##₁", "##₂", "##₃")
"""What stands before each pair of digits of an asin: the small numbers keep the places apart, so that the pair that
comes after another is found by that one alone."""

OTHERWISE = ascii_lowercase + digits + "-.,:;'\"$/&()+%*#!?_=@<>[|~"
"""Letters of words that are not known."""


def kinds() -> Iterator[tuple[str, str]]:
    """Every kind of product and its plural, which is what goals say and what is searched."""
    for entry in KINDS:
        singular, _, plural = entry.partition(">")
        base, _, ending = singular.partition("~")
        yield base, plural or base + ending


def spoken() -> Iterator[tuple[str, str]]:
    """Attributes that people say in another way: ``easy assemble`` is easy to assemble."""
    for attribute in ATTRIBUTES:
        first, _, rest = attribute.partition(" ")
        if first in ("easy", "ready"):
            yield attribute, f"{first} to {rest}"


def vocabulary() -> tuple[str, ...]:
    """Every word, without the special tokens, in the order of their ids."""
    words = (
        *MARKS, *CLICKS, *SIGNS, *GRAMMAR, *GROUPS, *ATTRIBUTES, *(said for _, said in spoken()), *VALUES,
        *(word for pair in kinds() for word in pair), *LOOKS, *DETAILS, *BRANDS,
        *TENS, *(f"${tens}" for tens in TENS), *OTHERWISE, *(f"##{letter}" for letter in OTHERWISE),
        *ASIN_PARTS, *(f"{before}{pair:02d}" for before in ASIN_PARTS for pair in range(100)),
    )  # fmt: skip
    return tuple(dict.fromkeys(words))


def _composed() -> dict[str, tuple[str, ...]]:
    """A plural begins as its singular, and so on: what goals say is then found on pages before it was ever seen."""
    plurals = {plural: (singular, "##s") for singular, plural in kinds() if plural != singular}
    prices = {f"${tens}": ("$", tens) for tens in TENS}
    asins = {f"{before}{pair:02d}": (before, f"{before}{pair:02d}") for before in ASIN_PARTS for pair in range(100)}
    return {**asins, **plurals, **{said: (attribute, "to") for attribute, said in spoken()}, **prices}


def _word_pattern() -> str:
    phrases = any_of(word for word in vocabulary() if " " in word and "[" not in word)
    return "|".join((any_of(CLICKS), r"search\[", r"click\[", r"\]", rf"\b{phrases}\b", r"[^\s\]]+"))


READING = Reading(
    words=vocabulary(),
    rewrites=tuple(Rewrite(pattern, by) for pattern, by in REWRITES),
    word_pattern=_word_pattern(),
    pieces=True,
    tight=(("[ ", "["), (" ]", "]"), (" ,", ","), (" .", "."), ("₁", ""), ("₂", ""), ("₃", "")),
    composed=_composed(),
    scale=TENS,
)
