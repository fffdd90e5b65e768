"""ALFWorld's data from the command line: ``python -m services.env_server.environments.alfworld --help``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.env_server.environments.data_command import data_app, run

app = data_app()


@app.callback()
def main() -> None:
    """ALFWorld's games: download the official ones, generate new ones, or look at what a folder holds.

    The server finds them through ALFWORLD_DATA; with nothing set it generates a small dataset by itself.
    """


@app.command()
def generate(
    out: Annotated[Path, typer.Option(help="The folder to write; it must not hold other data.")],
    tasks: Annotated[int, typer.Option(min=1, help="How many games of the train split.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and options give byte-identical files anywhere.")] = 0,
    difficulty: Annotated[
        str,
        typer.Option(
            help="easy: 6-9 receptacles, 8-12 things. medium: 12-14 receptacles, 14-20 things, some look-alikes. "
            "hard: the whole floor plan, 24-40 things."
        ),
    ] = "medium",
    valid_seen: Annotated[
        int | None,
        typer.Option(min=0, help="Held-out games in the rooms of train. Default: a tenth of --tasks, at least 12."),
    ] = None,
    valid_unseen: Annotated[
        int | None, typer.Option(min=0, help="Held-out games in rooms that train never shows. Same default.")
    ] = None,
    receptacles: Annotated[str | None, typer.Option(help="Receptacles in a room, such as 8 or 6-9, or all.")] = None,
    objects: Annotated[str | None, typer.Option(help="Things in a room, such as 10 or 8-12.")] = None,
    distractors: Annotated[str | None, typer.Option(help="How many of them look like the wanted thing.")] = None,
    spare_targets: Annotated[str | None, typer.Option(help="More of the wanted thing than the task needs.")] = None,
    task_types: Annotated[str | None, typer.Option(help="Comma-separated; default: all six, in turn.")] = None,
    rooms: Annotated[str | None, typer.Option(help="Comma-separated: kitchen, livingroom, bedroom, bathroom.")] = None,
) -> None:
    """Furnish rooms from real floor plans and write games in the official layout.

    Example: generate --tasks 500 --seed 1 --difficulty easy --out data/easy, then ALFWORLD_DATA=data/easy.
    """
    from tqdm import tqdm

    from services.env_server.environments.alfworld.generator.spec import ROOMS, TASK_TYPES, make_spec
    from services.env_server.environments.alfworld.generator.write import generate_dataset

    spec = make_spec(
        tasks,
        seed,
        difficulty,
        valid_seen=valid_seen,
        valid_unseen=valid_unseen,
        receptacles=receptacles,
        objects=objects,
        distractors=distractors,
        spare_targets=spare_targets,
        task_types=tuple(task_types.split(",")) if task_types else TASK_TYPES,
        rooms=tuple(rooms.split(",")) if rooms else tuple(ROOMS),
    )
    with tqdm(total=sum(spec.split_sizes), unit="game", file=sys.stderr) as bar:
        generate_dataset(spec, out, bar.update)
    info(out)


@app.command()
def download(
    out: Annotated[Path, typer.Option(help="The folder to fill; ALFWORLD_DATA may then point to it.")],
    mirror: Annotated[str | None, typer.Option(help="The address of a folder that holds the same archives.")] = None,
    keep_archives: Annotated[bool, typer.Option(help="Keep the zip files in OUT/downloads.")] = False,
) -> None:
    """Download the official release (3,827 playable games) from its publisher.

    A transfer that breaks off is continued by the next run. The publisher gives no checksums, so the first download's
    are recorded in OUT/downloads.lock.json, and later ones must match.
    """
    from services.env_server.environments.alfworld.download import OFFICIAL_ARCHIVES, archives_at, download_dataset

    archives = archives_at(mirror) if mirror else OFFICIAL_ARCHIVES
    for line in download_dataset(out, archives, keep_archives=keep_archives):
        typer.echo(line)
    info(out)


@app.command()
def info(
    path: Annotated[
        Path | None, typer.Argument(help="A data folder; default: ALFWORLD_DATA, or the built-in games.")
    ] = None,
) -> None:
    """Say what a folder holds: kind of data, splits and their sizes, digest."""
    from services.env_server.environments.alfworld.dataset import open_configured, open_dataset

    dataset = open_dataset(path) if path else open_configured()
    typer.echo(f"{dataset.kind} data in {dataset.root}")
    for split, tasks in dataset.splits.items():
        typer.echo(f"  {split:<13}{len(tasks):>6} games")
    typer.echo(f"  sha256 of all task data: {dataset.digest}")


if __name__ == "__main__":
    run(app)
