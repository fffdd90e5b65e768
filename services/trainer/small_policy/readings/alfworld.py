"""ALFWorld as a small policy reads it: the words of its games, and how their sentences are abridged.

ALFWorld's sentences are templates: most of their words carry nothing that the action before them did not say. The
policy reads ``You arrive at drawer 1. The drawer 1 is closed.`` as ``closed``; a prompt becomes three to four times
shorter, and so does everything that is computed from it. Actions are never abridged: they decode to the exact text.
A thing is one word, ``mug 2``: naming it is then a matter of pointing at one place in the prompt instead of two.
"""

from collections.abc import Iterator

from services.trainer.small_policy.reading import Reading, Rewrite

OBJECTS = (
    "alarmclock", "apple", "baseballbat", "basketball", "blinds", "book", "boots", "bowl", "box", "bread",
    "butterknife", "candle", "cd", "cellphone", "chair", "cloth", "creditcard", "cup", "curtains", "desklamp",
    "dishsponge", "egg", "faucet", "floorlamp", "footstool", "fork", "glassbottle", "handtowel", "houseplant", "kettle",
    "keychain", "knife", "ladle", "laptop", "laundryhamperlid", "lettuce", "lightswitch", "mirror", "mug", "newspaper",
    "painting", "pan", "papertowel", "papertowelroll", "pen", "pencil", "peppershaker", "pillow", "plate", "plunger",
    "poster", "pot", "potato", "remotecontrol", "saltshaker", "scrubbrush", "showerdoor", "showerglass", "soapbar",
    "soapbottle", "spatula", "spoon", "spraybottle", "statue", "stoveknob", "teddybear", "television", "tennisracket",
    "tissuebox", "toiletpaper", "toiletpaperroll", "tomato", "towel", "vase", "watch", "wateringcan", "window",
    "winebottle",
)  # fmt: skip

RECEPTACLES = (
    "armchair", "bathtub", "bathtubbasin", "bed", "cabinet", "cart", "coffeemachine", "coffeetable", "countertop",
    "desk", "diningtable", "drawer", "dresser", "fridge", "garbagecan", "handtowelholder", "laundryhamper", "microwave",
    "ottoman", "paintinghanger", "safe", "shelf", "sidetable", "sink", "sinkbasin", "sofa", "stoveburner", "toaster",
    "toilet", "toiletpaperhanger", "towelholder", "tvstand",
)  # fmt: skip

KINDS = (*RECEPTACLES, *OBJECTS)

ACTION_WORDS = (
    "open", "close", "take", "from", "move", "to", "put", "into", "in", "on", "examine", "use", "heat", "clean", "cool",
    "with", "slice", "look", "inventory", "help",
)  # fmt: skip

GOAL_WORDS = ("hot", "cold", "two", "find", "them", "it", "at", "under", "sliced", "is", "up", "then", "lamp")

MARKS = (">", ":", "/", "(", ")", "-")

LARGEST_NUMBER = 40
"""Instance numbers from 0 to this are words; the official games go up to 24."""

PHRASES = ("go to",)
"""Words of an action that are read, and written, as one."""

NUMBERED = {"cabinet": 30, "drawer": 30, "shelf": 15}
"""How many things of a kind have a word of their own each."""
NUMBERED_OTHERWISE = 6
"""The same for every other kind. A thing with a larger number is two words: its kind and its number."""

SIGNS = {
    "task": r"Your task is to:?",
    "room": r"You are in the middle of a room\. Looking quickly around you, you see",
    "closed": r"(You arrive at [^.]*\. )?The [^.]* is closed\.",
    "opened": r"(You (arrive at|open) [^.]*\. )?The [^.]* is open\. In it, you see",
    "sees": r"(You arrive at [^.]*\. )?On the [^,]*, you see",
    "commands": r"Available commands:(\n  [^\n]*)*",
    "facing": r"You are facing the [^.]*\. Next to it, you see",
    "carrying": r"You are carrying:",
    "empty-handed": r"You are not carrying anything\.",
    "fails": r"Nothing happens\.",
    "plain": r"There's nothing special about [^.]*\.",
    "done": r"You (pick up|put|move|close|heat|clean|cool|turn on|turn off|sliced?) [^.]*\.",
}
"""What the game says → the sign that the policy reads in its place; tried in this order."""

IGNORED = (r"\b([Aa]n?|[Tt]he|[Ss]ome|and)\b", r"[.,;!?\n]+")
"""Left out wherever they stand: no action has them."""


def vocabulary() -> tuple[str, ...]:
    """Every word, without the special tokens, in the order of their ids."""
    numbers = tuple(str(number) for number in range(LARGEST_NUMBER + 1))
    words = (*MARKS, *SIGNS, "nothing", *PHRASES, *ACTION_WORDS, *GOAL_WORDS, *KINDS, *numbers, *things())
    return tuple(dict.fromkeys(words))


def things() -> Iterator[str]:
    """Every thing that is one word: its kind and its number."""
    for kind in KINDS:
        for number in range(1, NUMBERED.get(kind, NUMBERED_OTHERWISE) + 1):
            yield f"{kind} {number}"


def _word_pattern() -> str:
    """What is one word: a phrase, a thing with its number, or else whatever stands between spaces."""
    limits: dict[int, list[str]] = {}
    for kind in KINDS:
        limits.setdefault(NUMBERED.get(kind, NUMBERED_OTHERWISE), []).append(kind)
    things = [
        rf"\b(?:{'|'.join(kinds)}) (?:{'|'.join(str(number) for number in range(limit, 0, -1))})(?!\d)"
        for limit, kinds in limits.items()
    ]
    return "|".join((*(rf"\b{phrase}\b" for phrase in PHRASES), *things, r"\S+"))


READING = Reading(
    words=vocabulary(),
    rewrites=(
        *(Rewrite(pattern, f" {sign} ") for sign, pattern in SIGNS.items()),
        *(Rewrite(pattern, " ") for pattern in IGNORED),
        *(Rewrite(mark, f" {mark} ", literal=True) for mark in MARKS if mark != "-"),
    ),
    word_pattern=_word_pattern(),
    composed={thing: (thing.partition(" ")[0], thing.partition(" ")[2]) for thing in things()},
)
