"""WebShop's full-text search at scale: build time and memory, opening, and how long a search takes.

``python -m benchmarks.webshop_search [--products 1000000] [--folder FOLDER] [--queries 500]``

Indexes generated products (a folder that holds an index already is opened as it is), then searches as agents do:
whole instructions with options and price or without, attributes with the kind of product, options with it, titles, and
single words. Searches are timed without the memory of recent queries.
"""

import argparse
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from services.env_server.environments.webshop.generator import generate_products
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.search.build import Document, write_index
from services.env_server.environments.webshop.search.files import DESCRIPTION, INDEX_FILES
from services.env_server.environments.webshop.search.index import FullTextIndex
from services.env_server.environments.webshop.search.text import indexed_text

SEED = 1


def build(products: int, folder: Path) -> tuple[float, float]:
    """Write the index of generated products. Returns seconds and peak resident MB of the process."""
    begin = time.perf_counter()
    stream = tqdm(generate_products(products, SEED), total=products, desc="indexing", unit=" products", mininterval=10)
    write_index((Document(product.asin, indexed_text(product)) for product in stream), folder, progress=True)
    return time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def private_megabytes() -> float:
    """Memory that this process shares with no other and that is no mapped file unchanged."""
    fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Private_Dirty", "Swap")) / 1024


def queries_of(product: Product, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Searches of somebody who wants this product, each with its kind."""
    if product.synthetic is None:
        return
    wanted = ", and ".join(f"{name}: {rng.choice(values)}" for name, values in product.options.items())
    instruction = product.synthetic.text + (f" with {wanted}" if wanted else "")
    price = 10.0 * rng.randrange(1, 20)
    yield "instruction", f"{instruction}, and price lower than {price:.2f} dollars"
    yield "no price", instruction
    yield "attributes", f"{' '.join(product.synthetic.attributes)} {product.query}"
    yield "options", f"{product.query} {' '.join(rng.choice(values) for values in product.options.values())}"
    yield "title", product.title
    yield "word", rng.choice(product.title.split())


def measure(index: FullTextIndex, queries: dict[str, list[str]]) -> None:
    """Print median, 95th percentile and worst per kind, in milliseconds."""
    for kind, texts in queries.items():
        times = []
        for text in texts:
            begin = time.perf_counter()
            index.search(text.lower())
            times.append((time.perf_counter() - begin) * 1e3)
        times.sort()
        p95 = times[int(0.95 * (len(times) - 1))]
        print(f"  {kind:12s} median {statistics.median(times):7.3f} ms, p95 {p95:7.3f} ms, worst {times[-1]:7.3f} ms")


def main() -> None:
    """Build where needed, open, search, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--products", type=int, default=100_000, help="how many to generate and index (default: %(default)s)"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the index is or goes; kept for the next time (default: temporary)"
    )
    parser.add_argument("--queries", type=int, default=500, help="of each kind (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / DESCRIPTION).exists():
            # In a process of its own, so that its memory does not count below.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                seconds, peak = pool.submit(build, arguments.products, folder).result()
            print(f"built in {seconds:.0f} s, products generated included; peak resident {peak:.0f} MB")
        run(folder, arguments.queries)


def run(folder: Path, count: int) -> None:
    """Open an index and search it."""
    before = private_megabytes()
    begin = time.perf_counter()
    index = FullTextIndex(folder, remembered_queries=0)
    opened = time.perf_counter() - begin
    size = sum((folder / name).stat().st_size for name in INDEX_FILES) / 1e6
    print(f"{index.description}, {size:.0f} MB on disk")
    print(f"opened in {opened * 1e3:.1f} ms with {private_megabytes() - before:.1f} MB of private memory")
    rng = random.Random(0)
    queries: dict[str, list[str]] = {}
    for product in islice(generate_products(10 * count, SEED), 10 * count):
        for kind, text in queries_of(product, rng):
            if len(texts := queries.setdefault(kind, [])) < count:
                texts.append(text)
    loaded = private_megabytes()
    for name in ("first searches", "again"):
        print(f"{name}:")
        measure(index, queries)
    print(f"private memory after them: {private_megabytes() - loaded:+.1f} MB")


if __name__ == "__main__":
    main()
