"""The report folder: ``report.md``, ``numbers.json`` and the pictures."""

from collections.abc import Sequence
from pathlib import Path

from gagpo.comparing.markdown import report_markdown
from gagpo.comparing.numbers import StudyNumbers
from gagpo.comparing.planning import PlannedRun, StudyFolder
from gagpo.comparing.plots import plot_family
from gagpo.comparing.study import Family, Study
from shared.files import write_atomically


def write_report(study: Study, runs: Sequence[PlannedRun], folder: StudyFolder) -> Path:
    """Report on the runs that are complete; returns ``report.md``."""
    numbers = StudyNumbers.gather(study, runs)
    folder.report.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.report / "numbers.json", f"{numbers.model_dump_json(indent=1)}\n".encode())
    out = folder.report / "report.md"
    write_atomically(out, report_markdown(numbers, _plots(numbers, folder.report)).encode())
    return out


def _plots(numbers: StudyNumbers, folder: Path) -> dict[tuple[str, Family], list[str]]:
    drawn = {}
    for base in numbers.bases:
        for family in Family:
            variants = base.family(family, numbers.reference)
            if any(variant.runs for variant in variants):
                title = f"{numbers.study}: {base.name}, {family.value}s"
                files = plot_family(base, variants, title, folder / f"{base.name}-{family.value}s")
                drawn[base.name, family] = [file.name for file in files]
    return drawn
