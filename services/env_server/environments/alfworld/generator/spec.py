"""What to generate: how many games, how hard, from which rooms. The one place where a difficulty is defined."""

from dataclasses import asdict, dataclass, replace

from services.env_server.environments.base import EnvironmentDataError

GENERATOR_VERSION = 1
"""Raised whenever the same spec would give other files."""

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)

ROOMS = {
    "kitchen": range(1, 31),
    "livingroom": range(201, 231),
    "bedroom": range(301, 331),
    "bathroom": range(401, 431),
}
"""Which floor plans are which kind of room."""

UNSEEN_FLOOR_PLANS = (10, 219, 308, 424)
"""One of each kind of room, as in the official release's ``valid_unseen``; train and ``valid_seen`` never use them."""

SPLITS = ("train", "valid_seen", "valid_unseen")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of whole numbers, both ends included."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str, field: str) -> "Span":
        """Reads ``8`` or ``6-9``. Raises `EnvironmentDataError` that names ``field``."""
        low, _, high = text.partition("-")
        try:
            span = cls(int(low), int(high or low))
        except ValueError:
            span = cls(1, 0)
        if not 0 <= span.low <= span.high:
            raise EnvironmentDataError(f"{field}: {text!r} is not a number or a range such as 6-9")
        return span


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How big and how confusing the rooms are."""

    receptacles: Span | None
    """How many receptacles the room keeps; None keeps the whole floor plan."""
    objects: Span
    """How many things lie around in all (lamps not counted). A room that cannot hold as many has fewer."""
    distractors: Span
    """How many of them are look-alikes of the wanted thing, such as a cup where a mug is wanted."""
    spare_targets: Span
    """How many more of the wanted thing there are than the task needs. More make the search shorter, but also set
    traps: one may stand at its destination already, unwashed."""


DIFFICULTIES = {
    "easy": Difficulty(Span(6, 9), Span(8, 12), Span(0, 0), Span(0, 0)),
    "medium": Difficulty(Span(12, 14), Span(14, 20), Span(1, 3), Span(0, 1)),
    "hard": Difficulty(None, Span(24, 40), Span(2, 5), Span(0, 2)),
}


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """Everything that decides what the generator writes: equal specs give byte-identical folders."""

    seed: int
    split_sizes: tuple[int, int, int]
    """How many games of train, valid_seen and valid_unseen."""
    difficulty_name: str
    """``easy``, ``medium``, ``hard``, or ``custom`` once a part of the preset is replaced."""
    difficulty: Difficulty
    task_types: tuple[str, ...] = TASK_TYPES
    rooms: tuple[str, ...] = tuple(ROOMS)

    def __post_init__(self) -> None:
        """Raises `EnvironmentDataError` for a size, task type or room that makes no sense."""
        if min(self.split_sizes) < 0 or not sum(self.split_sizes):
            raise EnvironmentDataError(f"split sizes: {self.split_sizes} hold no game; give at least one")
        for field, values, known in (("task types", self.task_types, TASK_TYPES), ("rooms", self.rooms, tuple(ROOMS))):
            unknown = [value for value in values if value not in known]
            if unknown or not values:
                raise EnvironmentDataError(f"{field}: unknown {', '.join(unknown)}; there are {', '.join(known)}")

    def to_json(self) -> dict[str, object]:
        """The spec as it is kept in ``generated.json``."""
        return {
            "generator": "gagpo-alfworld",
            "generator_version": GENERATOR_VERSION,
            "seed": self.seed,
            "splits": dict(zip(SPLITS, self.split_sizes, strict=True)),
            "difficulty": self.difficulty_name,
            **asdict(self.difficulty),
            "task_types": list(self.task_types),
            "rooms": list(self.rooms),
        }


def make_spec(
    tasks: int,
    seed: int,
    difficulty: str = "medium",
    *,
    valid_seen: int | None = None,
    valid_unseen: int | None = None,
    receptacles: str | None = None,
    objects: str | None = None,
    distractors: str | None = None,
    spare_targets: str | None = None,
    task_types: tuple[str, ...] = TASK_TYPES,
    rooms: tuple[str, ...] = tuple(ROOMS),
) -> GeneratorSpec:
    """A spec from what a person types. ``tasks`` is the number of training games.

    Each validation split has a tenth of that by default, at least 12. ``receptacles``, ``objects``, ``distractors`` and
    ``spare_targets`` (``8`` or ``6-9``) replace parts of the preset; ``receptacles`` may be ``all``.
    Raises `EnvironmentDataError` that names the field, the value and what would be right.
    """
    if difficulty not in DIFFICULTIES:
        raise EnvironmentDataError(f"difficulty: unknown {difficulty!r}; there are {', '.join(DIFFICULTIES)}")
    preset = DIFFICULTIES[difficulty]
    chosen = Difficulty(
        preset.receptacles
        if receptacles is None
        else None
        if receptacles == "all"
        else Span.parse(receptacles, "receptacles"),
        preset.objects if objects is None else Span.parse(objects, "objects"),
        preset.distractors if distractors is None else Span.parse(distractors, "distractors"),
        preset.spare_targets if spare_targets is None else Span.parse(spare_targets, "spare targets"),
    )
    validation = max(12, tasks // 10)
    spec = GeneratorSpec(
        seed,
        (
            tasks,
            validation if valid_seen is None else valid_seen,
            validation if valid_unseen is None else valid_unseen,
        ),
        difficulty,
        chosen,
        task_types,
        rooms,
    )
    return spec if chosen == preset else replace(spec, difficulty_name="custom")
