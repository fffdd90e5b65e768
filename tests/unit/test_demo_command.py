"""`gagpo demo`: what is said where there is nothing to demonstrate."""

from pathlib import Path

from typer.testing import CliRunner

from gagpo.cli import app

CONFIGS = Path(__file__).parents[2] / "configs"


def test_an_environment_without_a_demo_is_named_with_those_there_are() -> None:
    found = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["demo", "maze", "--configs", str(CONFIGS)])
    assert found.exit_code == 2
    assert "environment = 'maze' has no demo" in found.output
    assert "alfworld" in found.output
    assert "webshop" in found.output


def test_away_from_the_projects_folder_the_remedy_is_told(tmp_path: Path) -> None:
    found = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["demo", "alfworld", "--configs", str(tmp_path)])
    assert found.exit_code == 2
    assert "say with --configs where its recipes are" in found.output
