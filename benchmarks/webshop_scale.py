"""What a large WebShop catalogue costs: building, disk, opening, memory of each process, and what sessions ask of it.

``python -m benchmarks.webshop_scale [--products 1000000] [--folder FOLDER] [--lookups 2000]``

Builds a catalogue of generated products (a folder that holds one already is used as it is), then opens it in a process
of its own. Memory is what that process alone holds: pages of mapped files that it has not changed belong to all. Reads
are measured in a random order, so that hardly any was read before; the files are in the page cache where they fit.
"""

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.manifest import FILE_NAME
from services.env_server.environments.webshop.catalogue.open import Catalogue, open_world
from services.env_server.environments.webshop.generated import GeneratedSource
from services.env_server.environments.webshop.goal import GoalKind

SEED = 0


def build(products: int, folder: Path) -> tuple[float, float]:
    """Generate and write a catalogue. Returns seconds and the most MB of memory, mapped files left out."""
    samples = [anonymous_megabytes()]

    def sample() -> None:
        while True:
            samples.append(anonymous_megabytes())
            time.sleep(0.1)

    threading.Thread(target=sample, daemon=True).start()
    begin = time.perf_counter()
    build_catalogue(GeneratedSource(products, SEED), folder, seed=SEED)
    return time.perf_counter() - begin, max(samples)


def anonymous_megabytes() -> float:
    """Resident memory of this process that is of no file."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def private_megabytes() -> float:
    """Memory that belongs to this process alone, mapped files that are unchanged left out."""
    fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text("utf-8").splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Private_Dirty", "Swap")) / 1024


def median_microseconds(call: Callable[[int], object], arguments: list[int]) -> float:
    """How long a call takes."""
    times = []
    for argument in arguments:
        begin = time.perf_counter()
        call(argument)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def use(folder: Path, lookups: int) -> None:
    """Open a catalogue and ask of it what sessions ask; print what that took."""
    before = private_megabytes()
    begin = time.perf_counter()
    world = open_world(folder)
    opened = time.perf_counter() - begin
    print(f"opened in {opened:.3f} s, {private_megabytes() - before:.1f} MB of private memory")
    rng = random.Random(0)
    numbers = rng.sample(range(len(world)), min(lookups, len(world)))
    print(f"  a product: {median_microseconds(world.product, numbers):.1f} µs, ", end="")
    print(f"again: {median_microseconds(world.product, numbers[-1000:]):.2f} µs")
    asins = [world.product(number).asin for number in numbers]
    found = median_microseconds(lambda place: world.number_of(asins[place]), list(range(len(asins))))
    print(f"  a product's number by asin: {found:.1f} µs")
    for kind in GoalKind:
        table = world.goals(kind)
        goals = rng.sample(range(len(table)), min(lookups, len(table)))
        print(f"  a {kind} goal of {len(table):,}: {median_microseconds(table.goal, goals):.1f} µs, ", end="")
        print(f"drawn in {median_microseconds(lambda _, table=table: table.draw(rng), goals):.1f} µs")
    print(f"  a search for an instruction: {search_milliseconds(world, rng, lookups):.1f} ms")
    print(f"private memory then: {private_megabytes() - before:.1f} MB")


def search_milliseconds(world: Catalogue, rng: random.Random, count: int) -> float:
    """The median time of a search for the whole instruction of a goal."""
    table = world.goals(GoalKind.SYNTHETIC)
    texts = [table.goal(index).instruction.lower() for index in rng.sample(range(len(table)), min(count, len(table)))]
    return median_microseconds(lambda place: world.index.search(texts[place]), list(range(len(texts)))) / 1e3


def main() -> None:
    """Build where needed, open, use, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, default=1_000_000, help="how many to generate (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the catalogue is or goes, and stays (default: temporary)")
    parser.add_argument("--lookups", type=int, default=2_000, help="of each kind (default: %(default)s)")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool,
    ):
        folder = arguments.folder or Path(temporary) / "catalogue"
        if not (folder / FILE_NAME).exists():
            seconds, peak = pool.submit(build, arguments.products, folder).result()
            print(f"built in {seconds:.0f} s, generating included; at most {peak:.0f} MB of memory")
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{size / 1e6:,.0f} MB on disk")
        pool.submit(use, folder, arguments.lookups).result()


if __name__ == "__main__":
    main()
