"""WebShop's data from the command line: ``python -m services.env_server.environments.webshop --help``."""

from pathlib import Path
from typing import Annotated

import typer

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.data_command import data_app, run
from services.env_server.environments.webshop.source import ProductSource

app = data_app()


@app.callback()
def main() -> None:
    """WebShop's catalogues: download the official files, build a catalogue of them, or generate one.

    The server finds a catalogue through WEBSHOP_DATA; with nothing set it generates one of 1,000 products by itself.
    """


@app.command()
def download(
    out: Annotated[Path, typer.Option(help="The folder to fill.")],
    full: Annotated[
        bool,
        typer.Option("--full/--small", help="All 1.18 million products (about 5 GB), or the 1,000 of the small set."),
    ] = False,
    mirror: Annotated[str | None, typer.Option(help="The address of a folder that holds the same files.")] = None,
) -> None:
    """Download the official files from their authors' Google Drive.

    A transfer that breaks off is continued by the next run. The authors give no checksums, so the first download's are
    recorded in OUT/downloads.lock.json, and later ones must match.

    Example: download --small --out data/webshop-files, then build data/webshop-files --out data/webshop.
    """
    from services.env_server.environments.webshop.download import OfficialSet, download_official, official_files

    which = OfficialSet.FULL if full else OfficialSet.SMALL
    for line in download_official(out, official_files(which, mirror)):
        typer.echo(line)
    typer.echo(f"now make a catalogue of them: gagpo data build webshop {out} --out DIR")


@app.command()
def build(
    out: Annotated[
        Path, typer.Option(help="The folder to write; it must not exist. WEBSHOP_DATA may then point to it.")
    ],
    folder: Annotated[
        Path | None, typer.Argument(help="A folder with the official files, or with recorded ones.")
    ] = None,
    products: Annotated[Path | None, typer.Option(help="items_shuffle*.json, instead of a folder.")] = None,
    attributes: Annotated[Path | None, typer.Option(help="items_ins_v2*.json, with --products.")] = None,
    human: Annotated[Path | None, typer.Option(help="items_human_ins.json, with --products; optional.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Decides prices within listed ranges and the price caps of goals.")
    ] = 0,
    processes: Annotated[int, typer.Option(min=1, help="Processes that look for the nouns of titles.")] = 1,
) -> None:
    """Convert product files into a catalogue: compact, checksummed, memory-mapped.

    Official files need spaCy for the nouns of titles, once: pip install 'gagpo[webshop-build]'. Recorded files
    (products*.jsonl.xz) bring the nouns, and their goals.json and prices.json are used as they are.

    Example: build data/webshop-files --out data/webshop, then WEBSHOP_DATA=data/webshop.
    """
    from services.env_server.environments.webshop.catalogue.build import build_catalogue

    build_catalogue(_source(folder, products, attributes, human, processes), out, seed=seed)
    info(out)


def _source(
    folder: Path | None, products: Path | None, attributes: Path | None, human: Path | None, processes: int
) -> ProductSource:
    from services.env_server.environments.webshop.find_source import FORMS, find_source
    from services.env_server.environments.webshop.official import OfficialFiles, OfficialSource

    if folder and products:
        raise EnvironmentDataError(f"name either the folder {folder} or --products {products}, not both")
    if products and attributes:
        return OfficialSource(OfficialFiles(products, attributes, human), processes)
    if not folder:
        raise EnvironmentDataError("name a folder with product files, or --products and --attributes (and --human)")
    source = find_source(folder, processes)
    if source is None:
        raise EnvironmentDataError(f"{folder} holds no {FORMS}; `gagpo data webshop` downloads the official files")
    return source


@app.command()
def generate(
    out: Annotated[Path, typer.Option(help="The folder to write; it must not hold other data.")],
    products: Annotated[int, typer.Option(min=1, help="How many products.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and options give the same shop anywhere.")] = 0,
    style: Annotated[
        str,
        typer.Option(help="rich: long titles, many words, like a real shop. simple: few words, for a small policy."),
    ] = "rich",
    near_duplicates: Annotated[
        float | None, typer.Option(help="Share of products with others that differ in one thing only.")
    ] = None,
    family_size: Annotated[
        str | None, typer.Option(help="How many near-duplicates go together, such as 3 or 2-4.")
    ] = None,
    synthetic_share: Annotated[float | None, typer.Option(help="Share of products with synthetic goals.")] = None,
    human_share: Annotated[float | None, typer.Option(help="Share with a goal in a person's words.")] = None,
    combinations: Annotated[int | None, typer.Option(help="The most combinations of options of a product.")] = None,
    areas: Annotated[
        str | None, typer.Option(help="Comma-separated: beauty, electronics, fashion, garden, grocery.")
    ] = None,
) -> None:
    """Invent products and build a catalogue of them; the same again into the same folder does nothing.

    Example: generate --products 5000 --seed 1 --style simple --out data/shop, then WEBSHOP_DATA=data/shop.
    """
    from services.env_server.environments.webshop.generated import generate_catalogue
    from services.env_server.environments.webshop.generator import make_spec

    spec = make_spec(
        style,
        near_duplicates=near_duplicates,
        family_size=family_size,
        synthetic_share=synthetic_share,
        human_share=human_share,
        combinations=combinations,
        areas=tuple(areas.split(",")) if areas else None,
    )
    generate_catalogue(out, products, seed, spec)
    info(out)


@app.command()
def info(
    path: Annotated[
        Path | None, typer.Argument(help="A catalogue or source files; default: WEBSHOP_DATA, or the built-in shop.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every file with its checksum.")] = False,
) -> None:
    """Say what a folder holds: kind of data, products, goals, digest, where it came from."""
    from services.env_server.environments.webshop.catalogue.manifest import verify_files
    from services.env_server.environments.webshop.catalogue.open import open_configured, open_path

    shop = open_path(path) if path else open_configured()
    manifest = shop.manifest
    typer.echo(f"{manifest.kind} catalogue in {shop.folder}")
    typer.echo(f"  {manifest.products:,} products, {sum(entry.size for entry in manifest.files.values()):,} bytes")
    for kind, count in manifest.goals.items():
        typer.echo(f"  {count:,} {kind} goals")
    for name, value in manifest.provenance.items():
        typer.echo(f"  {name}: {value}")
    typer.echo(f"  sha256 of products, prices and goals: {manifest.digest}")
    if verify:
        verify_files(shop.folder, manifest)
        typer.echo(f"  all {len(manifest.files)} files match their checksums")


if __name__ == "__main__":
    run(app)
