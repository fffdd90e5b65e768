"""Invented brand names and model numbers."""

from services.env_server.environments.webshop.generator.dice import Dice

SIMPLE_BRANDS = (
    "Avoro", "Belvio", "Brenko", "Caldera", "Corvex", "Dalmina", "Dorwin", "Eldory", "Elvana", "Fenwix",
    "Florvia", "Galdor", "Gorvane", "Halvex", "Hestio", "Ilmara", "Ivorik", "Jalinto", "Jorvik", "Kaldune",
    "Kestro", "Lavindo", "Lorvane", "Lumexa", "Maldero", "Merova", "Mirdale", "Nalvo", "Nestora", "Norvik",
    "Olvera", "Orlisa", "Palvino", "Pexora", "Quendo", "Quilvia", "Ravello", "Rivosa", "Rondex", "Salvero",
    "Selvano", "Solmira", "Tandexo", "Tavira", "Torvel", "Ulmero", "Ultavo", "Valdora", "Vexano", "Virelo",
    "Wexford", "Wolmara", "Xalvo", "Xerina", "Yelmora", "Yorvex", "Zafiro", "Zelvano", "Zintara", "Zorlex",
)  # fmt: skip
"""The brands of the simple style: a closed list, one word each."""

SYLLABLES = (
    "ba", "be", "bri", "ca", "cor", "da", "del", "do", "dra", "el", "fa", "fen", "flo", "ga", "gor", "gri", "ha",
    "hel", "i", "ja", "jo", "ka", "kel", "ki", "kri", "la", "len", "li", "lor", "lu", "ma", "mel", "mi", "mor", "na",
    "nel", "no", "nu", "o", "or", "pa", "pel", "pi", "pro", "qua", "ra", "rel", "ri", "ro", "sa", "sel", "si", "sta",
    "ta", "tel", "ti", "tri", "u", "va", "vel", "vi", "wa", "wel", "wi", "xa", "xi", "ya", "yo", "za", "zel", "zi",
    "zo",
)  # fmt: skip
ENDINGS = (
    "na", "ra", "vo", "lix", "ton", "tek", "via", "nix", "dor", "mar", "sen", "lo", "ri", "fy", "wex", "que", "zon",
    "bel", "ka", "dex", "rise", "gard", "home", "line", "way", "rn", "st", "ve", "sy", "lia", "ino", "ora", "ex", "um",
)  # fmt: skip
NAMES = len(SYLLABLES) ** 2 * len(ENDINGS)

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def simple_brand(dice: Dice) -> str:
    """One of the closed list."""
    return dice.pick(SIMPLE_BRANDS)


def composed_brand(dice: Dice) -> str:
    """A brand of two or three parts; a few brands have many products and most have few, as in a real shop."""
    rank = int(NAMES * dice.skewed(3))
    # A step that shares no factor with NAMES, so that neighbouring ranks do not look alike.
    rest, ending = divmod(rank * 100_003 % NAMES, len(ENDINGS))
    first, second = divmod(rest, len(SYLLABLES))
    middle = SYLLABLES[second] if rank % 3 else ""
    name = SYLLABLES[first] + middle + ENDINGS[ending]
    return name.upper() if rank % 4 == 0 else name.capitalize()


def model_number(dice: Dice) -> str:
    """Such as ``KX4821`` or ``T-90``."""
    letters = dice.pick(LETTERS) + (dice.pick(LETTERS) if dice.chance(0.7) else "")
    digits = 10 ** dice.between(1, 4)
    number = dice.between(digits, digits * 10 - 1)
    return f"{letters}{'-' if dice.chance(0.3) else ''}{number}"
