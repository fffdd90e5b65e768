"""Text into words, as Lucene's ``StandardTokenizer`` cuts it.

The rules are those of Unicode Standard Annex #29 (word boundaries) with four choices of Lucene's own: only segments
that hold a letter, a digit, kana, an ideograph or an emoji are words; ideographs and hiragana come one by one; runs of
scripts written without spaces (Thai, Lao, Khmer, Myanmar) stay whole; and no word is longer than 255 UTF-16 units.
Character properties come from the ``regex`` package, which is the only well-kept one that has Unicode's word-break
property; ``re`` knows no properties at all. Its Unicode is newer than that of Lucene 9.5: characters that have been
added to Unicode since then are words here and nothing there.
"""

import re

import regex

MAX_TOKEN_UNITS = 255
"""Longest token, in UTF-16 units; what follows is a token of its own."""

# Nearly all text is ASCII, where the rules come down to this: letters, digits and underscores (at least one of them no
# underscore), joined by one of [:.'] between letters or one of [.,;'] between digits.
_ASCII = re.compile(
    r"_*[A-Za-z0-9][A-Za-z0-9_]*"
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
    """The rules for all of Unicode. Of several that match at a place, the longest match counts (POSIX)."""
    trailing = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*"  # belongs to the character before it

    def of(characters: str) -> str:
        return f"(?:{characters}{trailing})"

    letter = of(r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]")
    hebrew = of(r"\p{WB=Hebrew_Letter}")
    digit = of(r"(?:\p{WB=Numeric}|[\uff10-\uff19])")
    katakana = of(r"\p{WB=Katakana}")
    connector = of(r"\p{WB=ExtendNumLet}")
    quote, double_quote = of(r"\p{WB=Single_Quote}"), of(r"\p{WB=Double_Quote}")
    between_letters = of(r"[\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}]")
    between_digits = of(r"[\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}]")

    number = f"{digit}(?:(?:{connector}*|{between_digits}){digit})*"
    letters = f"{letter}(?:(?:{connector}*|{between_letters}){letter})*"
    hebrew_quoted = f"{hebrew}(?:{double_quote}{hebrew}|{quote})"
    syllables = f"{katakana}(?:{connector}*{katakana})*"
    alphanumeric = f"(?:{syllables}|(?:{hebrew_quoted}|{number}|{letters})+)"
    word = f"{connector}*{alphanumeric}(?:{connector}+{alphanumeric})*{connector}*"

    # Emoji sequences (UTS #51). The selectors U+FE0E and U+FE0F are no plain trailing characters here.
    joined = r"(?:(?![\ufe0e\ufe0f])[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}])*"
    no_emoji_alone = r"[\p{WB=Regional_Indicator}0-9#*©®™\u3030\u303d\p{Emoji_Modifier}]"
    picture = rf"(?:[\p{{Extended_Pictographic}}{_FORMER_PICTURES}]|(?!{no_emoji_alone})\p{{Emoji}})"
    skin = rf"(?:\p{{WB=ZWJ}}*\p{{Emoji_Modifier_Base}}{joined})?\p{{Emoji_Modifier}}{joined}"
    emoji = rf"(?:{skin}|\p{{WB=ZWJ}}*{picture}{joined}\ufe0f?)"
    tag = r"[\U000e0020-\U000e007e]+\U000e007f"
    key_cap = rf"[0-9#*]{joined}\ufe0f?\u20e3{joined}"
    flag = of(r"\p{WB=Regional_Indicator}") + "{2}"
    emoji_sequence = rf"{emoji}(?:{tag}|(?:\p{{WB=ZWJ}}{emoji})*)|{key_cap}|{flag}"

    no_spaces = of(r"\p{LB=SA}") + "+"
    single = of(r"[\p{Script=Han}\p{Script=Hiragana}]")
    return regex.compile(f"{emoji_sequence}|{word}|{no_spaces}|{single}", regex.POSIX)


_UNICODE = _unicode_pattern()


def tokenize(text: str) -> list[str]:
    """The words of ``text`` in their order, unchanged."""
    tokens: list[str] = (_ASCII if text.isascii() else _UNICODE).findall(text)
    if 2 * len(text) > MAX_TOKEN_UNITS and 2 * max(map(len, tokens), default=0) > MAX_TOKEN_UNITS:
        return [piece for token in tokens for piece in _cut(token)]
    return tokens


def _cut(token: str) -> list[str]:
    """A word in the pieces that Lucene's scanner makes of it, which never sees more than its buffer at once."""
    pieces = []
    while _units(token) > MAX_TOKEN_UNITS:
        end = MAX_TOKEN_UNITS
        while _units(token[:end]) > MAX_TOKEN_UNITS:
            end -= 1
        match = _UNICODE.search(token, 0, end)
        if match is None:
            token = token[end:]
            continue
        pieces.append(match.group())
        token = token[match.end() :]
    return [*pieces, *_UNICODE.findall(token)]


def _units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
