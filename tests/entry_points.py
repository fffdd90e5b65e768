"""What installed packages leave in a folder on ``sys.path``."""

from pathlib import Path


def write_entry_point(folder: Path, group: str, name: str, reference: str) -> None:
    """Somebody's package that registers ``module:Class``."""
    info = write_distribution(folder, "somebody-s-package", "1.0")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {reference}\n")


def write_distribution(folder: Path, name: str, version: str) -> Path:
    """A package's metadata; the folder of it."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return info
