"""Packages of other people, as far as entry points go."""

from pathlib import Path


def write_entry_point(folder: Path, group: str, name: str, reference: str) -> None:
    """What an installed package leaves in a folder on ``sys.path`` to register ``module:Class``."""
    info = folder / "somebody_s_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-s-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {reference}\n")
