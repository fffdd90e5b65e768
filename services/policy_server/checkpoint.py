"""What must hold of weights before they may be applied: names, shapes and the digest."""

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from shared.problems import ProblemError
from shared.weights_digest import digest_of_folder

Shapes = dict[str, tuple[int, ...]]

TIED_HEAD = "lm_head.weight"
"""May be in a push or not when the model ties it to the embedding."""


@dataclass(frozen=True)
class Layout:
    """The tensors of the served model, as its folder spells them."""

    shapes: Shapes
    tied: bool
    bytes: int
    """Size of the files."""

    @classmethod
    def of_model(cls, folder: Path) -> "Layout":
        """Read it from the initial model's folder. Raises `ProblemError` where its weights can't be read."""
        config = json.loads((folder / "config.json").read_text())
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        return cls(read_shapes(folder), bool(config.get("tie_word_embeddings", False)), size)

    def check(self, pushed: Shapes) -> None:
        """Raise a 422 problem that names every tensor missing, unknown or of another shape."""
        optional = {TIED_HEAD} if self.tied else set()
        missing = sorted(self.shapes.keys() - pushed.keys() - optional)
        unknown = sorted(pushed.keys() - self.shapes.keys() - optional)
        faults = [f"missing {name}" for name in missing] + [f"unknown {name}" for name in unknown]
        faults += [
            f"{name} is {list(pushed[name])} and must be {list(shape)}"
            for name, shape in self.shapes.items()
            if name in pushed and pushed[name] != shape
        ]
        if faults:
            more = f" and {len(faults) - 8} more" if len(faults) > 8 else ""
            detail = f"{'; '.join(faults[:8])}{more}. Push the weights of the model that this server was started with."
            raise ProblemError(422, "weights-mismatch", "The weights do not fit the model", detail)


def read_shapes(folder: Path) -> Shapes:
    """Shape of every tensor in a folder's safetensors files. Raises a 422 problem where one can't be read."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        detail = f"no *.safetensors in {folder}: give a folder that holds the weights and that this server can see"
        raise ProblemError(422, "weights-not-found", "There are no weights", detail)
    shapes: Shapes = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as opened:
                for name in opened.keys():  # noqa: SIM118  (not a dict)
                    shapes[name] = tuple(opened.get_slice(name).get_shape())
        except (SafetensorError, OSError, ValueError) as error:
            detail = f"{file} is not a readable safetensors file ({error}); write it again and rename it into place"
            raise ProblemError(422, "weights-unreadable", "The weights can't be read", detail) from error
    return shapes


def check_digest(folder: Path, expected: str) -> None:
    """Raise a 422 problem unless the folder's weights have this digest."""
    found = digest_of_folder(folder)
    if found != expected.lower():
        detail = f"the weights that arrived have digest {found}, the push says {expected}; push them again"
        raise ProblemError(422, "digest-mismatch", "The weights are not the ones announced", detail)
