"""Whether the model that a recipe names is the one that the policy servers serve."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.trainer.server.servers import ServedModel
from shared.recipe import Recipe, RecipeFault
from shared.weights_digest import digest_of_folder

Signature = tuple[tuple[str, int, int], ...]
"""(name, bytes, time of change) of each weight file."""


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """What came of the check."""

    path: Path
    """Folder of the model on the servers."""
    faults: list[RecipeFault] = field(default_factory=list)


class ModelChecker:
    """Compares models; remembers the digests of folders that did not change."""

    def __init__(self, folder: Path | None) -> None:
        """``folder`` holds the policy servers' model on this machine; None: where the policy servers have it."""
        self._folder = folder
        self._digests: dict[Path, tuple[Signature, str]] = {}

    def check(self, recipe: Recipe, served: Sequence[ServedModel]) -> CheckedModel:
        """Compare the recipe with what every policy server serves; reads whole models, so call it in a thread."""
        # The recipe is saved into the run folder, where a relative path would lead elsewhere.
        folder = (self._folder or served[0].folder).resolve()
        faults = [*self._model_faults(recipe.model.path, served[0], folder), *self._length_faults(recipe, served)]
        for other in served[1:]:
            if (other.name, other.initial_digest) != (served[0].name, served[0].initial_digest):
                both = f"{served[0].name} at {served[0].url}, {other.name} at {other.url}"
                faults.append(RecipeFault("model.path", None, f"the policy servers serve different models: {both}"))
        return CheckedModel(folder, faults)

    def _model_faults(self, given: Path, served: ServedModel, folder: Path) -> Iterable[RecipeFault]:
        if not (folder / "config.json").is_file():
            message = (
                f"the policy servers serve {served.name!r} from {served.folder}, and the trainer finds no model in "
                f"{folder}: mount the same folder there, or set GAGPO_TRAINER_MODEL to where it is"
            )
            return [RecipeFault("model.path", repr(str(given)), message)]
        digest = self._digest(folder)
        if served.initial_digest != digest:
            message = (
                f"the trainer's {folder} holds other weights than the policy servers were started with: "
                "give both the same model and restart them"
            )
            return [RecipeFault("model.path", repr(str(given)), message)]
        if self._is_served(given, served, folder, digest):
            return []
        message = (
            f'the policy servers serve {served.name!r} ({served.folder}); write model.path = "{served.name}" to train '
            "that, or start the policy servers and the trainer with another MODEL"
        )
        return [RecipeFault("model.path", repr(str(given)), message)]

    def _is_served(self, given: Path, served: ServedModel, folder: Path, digest: str) -> bool:
        """By name, as the submitter's own folders mean nothing here; or by what a folder on this machine holds."""
        if given.name in (served.name, served.folder.name):
            return True
        if not given.is_absolute() or not any(given.glob("*.safetensors")):
            return False
        return given.resolve() == folder.resolve() or self._digest(given) == digest

    def _length_faults(self, recipe: Recipe, served: Sequence[ServedModel]) -> Iterable[RecipeFault]:
        known = [one.longest_sequence for one in served if one.longest_sequence is not None]
        if known and recipe.longest_sequence > min(known):
            message = (
                f"a prompt and its answer may have {recipe.longest_sequence} tokens together, and the policy servers "
                f"take {min(known)}: make prompt.max_tokens or sampling.max_tokens smaller, or start the policy "
                f"servers with --max-model-len {recipe.longest_sequence}"
            )
            return [RecipeFault("prompt.max_tokens", str(recipe.prompt.max_tokens), message)]
        return []

    def _digest(self, folder: Path) -> str:
        """Raises `OSError` for a folder that cannot be read."""
        files = [(file, file.stat()) for file in sorted(folder.glob("*.safetensors"))]
        signature = tuple((file.name, status.st_size, status.st_mtime_ns) for file, status in files)
        known = self._digests.get(folder)
        if known is None or known[0] != signature:
            known = (signature, digest_of_folder(folder))
            self._digests[folder] = known
        return known[1]
