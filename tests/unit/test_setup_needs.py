"""What a machine lacks is said before minutes are spent on it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gagpo.doctor.checks import quick_checks
from gagpo.doctor.finding import Verdict
from tests.processes import REPOSITORY


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with what `make` needs but a compiler."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("make", "sh", "test", "grep", "dirname"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(programs))
    return programs


def test_make_setup_without_a_compiler_ends_at_once_and_names_the_package(no_compiler: Path, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(REPOSITORY / name, tmp_path / name)
    done = subprocess.run(["make", "setup"], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode != 0
    assert "gagpo needs a C compiler" in done.stdout and "apt-get install build-essential" in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_the_doctor_names_a_missing_compiler(no_compiler: Path) -> None:
    found = next(finding for finding in quick_checks() if finding.check == "compiler")
    assert found.verdict is Verdict.WARNING and "build-essential" in found.remedy


def test_the_doctor_finds_the_compiler_that_is_there() -> None:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("this machine has no compiler")
    found = next(finding for finding in quick_checks() if finding.check == "compiler")
    assert found.verdict is Verdict.OK
