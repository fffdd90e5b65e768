"""A study's small files in a folder that can be kept: what was asked for, the report, and every run's raw numbers.

    study.toml                    as it was given
    report/                       report.md, numbers.json, pictures
    runs/<run>/summary.json       held-out evaluations before and after
    runs/<run>/metrics.csv        a line a training step

The report's links to run folders lead to them here as well. A run's recipe follows from the study and the recipe that
it names; the one in its folder has paths of the machine that made it.
"""

import csv
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from gagpo.comparing.planning import PlannedRun, RunState, StudyFolder
from shared.files import write_atomically
from shared.scalars import scalars

DIGITS = 6
"""Significant digits of a number in the tables."""


def export_study(study_file: Path, runs: Sequence[PlannedRun], folder: StudyFolder, out: Path) -> int:
    """Copy the small files into ``out``, replacing what stands there under the same names; how many runs it has."""
    complete = [run for run in runs if run.state() is RunState.COMPLETE]
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(study_file, out / "study.toml")
    shutil.copytree(folder.report, out / "report", dirs_exist_ok=True)
    for run in complete:
        kept = out / "runs" / run.name
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run.folder.summary, kept / "summary.json")
        write_atomically(kept / "metrics.csv", _table(run.folder.metrics).encode())
    return len(complete)


def _table(metrics: Path) -> str:
    """``metrics.jsonl`` as CSV. What some lines lack is empty there."""
    rows = [_row(json.loads(line)) for line in metrics.read_text().splitlines()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(record: Mapping[str, JsonValue]) -> dict[str, str]:
    """The numbers of a record as text; those of each environment apart are left out."""
    whole = {name: value for name, value in record.items() if name != "environments"}
    return {name: _text(number) for name, number in scalars(whole).items()}


def _text(number: float) -> str:
    return f"{number:.{DIGITS}g}" if isinstance(number, float) else str(number)
