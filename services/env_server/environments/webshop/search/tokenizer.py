"""Text into words, as Lucene's ``StandardTokenizer`` cuts it.

The rules are those of Unicode Standard Annex #29 (word boundaries) with four choices of Lucene's own: only segments
that hold a letter, a digit, kana, an ideograph or an emoji are words; ideographs and hiragana come one by one; runs of
scripts written without spaces (Thai, Lao, Khmer, Myanmar) stay whole; and no word is longer than 255 UTF-16 units.
Character properties come from the ``regex`` package, which is the only well-kept one that has Unicode's word-break
property; ``re`` knows no properties at all. Its Unicode is newer than that of Lucene 9.5: characters that have been
added to Unicode since then are words here and nothing there.
"""

import re
from collections.abc import Iterator

import regex

MAX_TOKEN_UNITS = 255
"""Longest token, in UTF-16 units; what follows is a token of its own."""

# Nearly all text is ASCII, where the rules come down to this: letters, digits and underscores (at least one of them no
# underscore), joined by one of [:.'] between letters or one of [.,;'] between digits.
_ASCII = re.compile(
    r"(?:(?<!_)_+)?[A-Za-z0-9][A-Za-z0-9_]*"
    r"(?:(?:(?<=[A-Za-z])[:.'](?=[A-Za-z])|(?<=[0-9])[.,;'](?=[0-9]))[A-Za-z0-9_]+)*"
)

# Unicode 17 took the property Extended_Pictographic from symbols such as ★ and ☞, which are words to Lucene 9.
_FORMER_PICTURES = (
    r"\u2388\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2763-\u2767"
    r"\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171\U0001f1ad-\U0001f1e5"
    r"\U0001f249-\U0001f3fa\U0001f400-\U0001f53d\U0001f546-\U0001f64f\U0001f680-\U0001f6ff"
    r"\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff\U0001f8ae-\U0001f8ff\U0001f947-\U0001faff"
)


def _unicode_pattern() -> "regex.Pattern[str]":
    """The rules for all of Unicode. Possessive quantifiers keep long words from taking more than linear time."""
    trailing = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"  # belongs to the character before it
    letter = r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]"
    hebrew = r"\p{WB=Hebrew_Letter}"
    digit = r"[\p{WB=Numeric}\uff10-\uff19]"
    connector = rf"(?:\p{{WB=ExtendNumLet}}{trailing})"
    # What stands between two letters or two digits, and the quotes of Hebrew, go with the character before them.
    between_letters = rf"[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{trailing}(?={letter})"
    between_digits = rf"[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{trailing}(?={digit})"
    hebrew_quote = rf"\p{{WB=Double_Quote}}{trailing}(?={hebrew})|\p{{WB=Single_Quote}}{trailing}"
    alphanumeric = (
        rf"(?:{hebrew}{trailing}(?:{between_letters}|{hebrew_quote})?+"
        rf"|{letter}{trailing}(?:{between_letters})?+|{digit}{trailing}(?:{between_digits})?+)++"
    )
    part = rf"(?:(?:\p{{WB=Katakana}}{trailing})++|{alphanumeric})"
    word = rf"(?:(?<!\p{{WB=ExtendNumLet}}){connector}++)?+{part}(?:{connector}++{part})*+{connector}*+"

    # Emoji sequences (UTS #51). The joiner before an emoji and the selectors U+FE0E, U+FE0F are no plain trailing
    # characters here; skin tones are. Key caps of digits are words already.
    picture = rf"[\p{{Extended_Pictographic}}{_FORMER_PICTURES}]"
    joined = (
        rf"(?:(?![\ufe0e\ufe0f]|\p{{WB=ZWJ}}+(?:{picture}|\p{{Emoji_Modifier}}))"
        r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}])*"
    )
    emoji = rf"(?:\p{{WB=ZWJ}}*+{picture}{joined}\ufe0f?|\p{{Emoji_Modifier}}{joined})"
    tag = r"[\U000e0020-\U000e007e]++\U000e007f"
    emoji_sequence = rf"{emoji}(?:{tag}|(?:\p{{WB=ZWJ}}{emoji})*+)"
    key_cap = rf"[#*]{joined}\ufe0f?\u20e3{joined}"
    flag = rf"(?:\p{{WB=Regional_Indicator}}{trailing}){{2}}"

    no_spaces = rf"(?:\p{{LB=SA}}{trailing})++"
    single = rf"[\p{{Script=Han}}\p{{Script=Hiragana}}]{trailing}"
    return regex.compile(f"{word}|{emoji_sequence}|{key_cap}|{flag}|{no_spaces}|{single}")


_UNICODE = _unicode_pattern()


def tokenize(text: str) -> list[str]:
    """The words of ``text`` in their order, unchanged."""
    tokens: list[str] = (_ASCII if text.isascii() else _UNICODE).findall(text)
    if 2 * len(text) > MAX_TOKEN_UNITS and 2 * max(map(len, tokens), default=0) > MAX_TOKEN_UNITS:
        return [piece for token in tokens for piece in _cut(token)]
    return tokens


def _cut(token: str) -> Iterator[str]:
    """A word in the pieces that Lucene's scanner makes of it, which sees no more than its buffer at once."""
    if _units(token) <= MAX_TOKEN_UNITS:
        yield token
        return
    begin = 0
    while begin < len(token):
        seen = token[begin : begin + MAX_TOKEN_UNITS]
        while _units(seen) > MAX_TOKEN_UNITS:
            seen = seen[:-1]
        match = _UNICODE.match(seen)
        if match:
            yield match.group()
        begin += match.end() if match else 1


def _units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
