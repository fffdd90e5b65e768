"""Porter's stemmer as Lucene has it: the algorithm of 1980 with the departures of Porter's own later programs.

Source: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980; departures: words of two characters
stay, ``-bli`` (in place of ``-abli``) becomes ``-ble`` and ``-logi`` becomes ``-log``. Written out here since no light
library has exactly these rules: Snowball's ``porter`` knows fewer double consonants (trekking) and neither departure
(possibly, technology), and NLTK, which has them all, brings its whole package into every worker.
"""

_STEP_2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble")),
    *(("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate")),
    *(("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al")),
    *(("iviti", "ive"), ("biliti", "ble"), ("logi", "log")),
)
_STEP_3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")),
)
_STEP_4 = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion"),
    *("al", "er", "ic", "ou"),
)


def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if len(word) <= 2:
        return word
    word = _without_participle(_without_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = f"{word[:-1]}i"
    word = _replaced(_replaced(word, _STEP_2), _STEP_3)
    return _without_final_e(_without_last_suffix(word))


def _shape(text: str) -> str:
    """Each letter as ``v`` or ``c``: what is no vowel is a consonant; y is one at the start and after a vowel."""
    shape = ""
    for letter in text:
        shape += "v" if letter in "aeiou" or (letter == "y" and shape.endswith("c")) else "c"
    return shape


def _measure(text: str) -> int:
    """Porter's m: how often a consonant follows a vowel."""
    return _shape(text).count("vc")


def _ends_double(text: str) -> bool:
    return len(text) > 1 and text[-1] == text[-2] and _shape(text)[-1] == "c"


def _ends_short(text: str) -> bool:
    """Porter's *o: consonant, vowel, consonant other than w, x and y."""
    return text[-1:] not in ("w", "x", "y") and _shape(text).endswith("cvc")


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_participle(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if word.endswith("ed"):
        root = word[:-2]
    elif word.endswith("ing"):
        root = word[:-3]
    else:
        return word
    if "v" not in _shape(root):
        return word
    if root.endswith(("at", "bl", "iz")):
        return f"{root}e"
    if _ends_double(root):
        return root if root[-1] in "lsz" else root[:-1]
    return f"{root}e" if _measure(root) == 1 and _ends_short(root) else root


def _replaced(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """The word after the first rule whose suffix it has, which acts only where the root has a syllable."""
    for suffix, replacement in rules:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            return root + replacement if _measure(root) > 0 else word
    return word


def _without_last_suffix(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix) and (suffix != "ion" or word[-4:-3] in ("s", "t")):
            root = word[: -len(suffix)]
            return root if _measure(root) > 1 else word
    return word


def _without_final_e(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word)
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
