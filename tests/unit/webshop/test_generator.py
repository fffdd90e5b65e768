"""The catalogue generator: determinism, asins, near-duplicates, shares, clean texts, bounded memory."""

import hashlib
import itertools
import subprocess
import sys
import tracemalloc
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
import pytest

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.generator import (
    RICH,
    SIMPLE,
    FamilySize,
    GeneratorSpec,
    generate_products,
    make_spec,
)
from services.env_server.environments.webshop.generator.asins import AsinScramble
from services.env_server.environments.webshop.generator.blueprint import PRICE_GAP, Blueprint, Difference
from services.env_server.environments.webshop.generator.generate import NO_IMAGE, generate_blueprints
from services.env_server.environments.webshop.generator.kinds import AREAS
from services.env_server.environments.webshop.generator.simple_listing import TITLE_WORDS
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.search.analyzer import analyze
from services.env_server.environments.webshop.search.text import indexed_text

STYLES = {"rich": RICH, "simple": SIMPLE}
both_styles = pytest.mark.parametrize("spec", STYLES.values(), ids=STYLES)


def digest(count: int, seed: int, spec: GeneratorSpec) -> str:
    encode = msgspec.json.Encoder().encode
    return hashlib.sha256(b"\n".join(map(encode, generate_products(count, seed, spec)))).hexdigest()


def families(count: int, seed: int, spec: GeneratorSpec) -> list[list[tuple[Blueprint, Product]]]:
    """Blueprints and products by family, the last one left out: it may be cut off."""
    grouped: dict[int, list[tuple[Blueprint, Product]]] = defaultdict(list)
    for pair in zip(generate_blueprints(seed, spec), generate_products(count, seed, spec), strict=False):
        grouped[pair[0].family].append(pair)
    return list(grouped.values())[:-1]


DIGESTS = {
    "rich": "4442dd070b4475caad1577b51e8f681423be5eaf388a5c6f2cb21e9069b96aff",
    "simple": "272b4c03ef40b2e9cc14af7947c804f1b2b288477e393df06af385c2f69e91ef",
}


@pytest.mark.parametrize("style", STYLES)
def test_the_products_are_those_of_every_other_machine(style: str) -> None:
    # Recorded once. A change here means that the same seed now gives other products: raise GENERATOR_VERSION with it.
    assert digest(1000, 7, STYLES[style]) == DIGESTS[style]


def test_another_process_with_another_hash_seed_gives_the_same_products() -> None:
    code = (
        "from tests.unit.webshop.test_generator import RICH, digest\n"
        "print(digest(200, 3, RICH))"
    )  # fmt: skip
    root = Path(__file__).parents[3]
    environment = {"PYTHONHASHSEED": "7", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, capture_output=True, cwd=root, text=True
    )
    assert done.stdout.strip() == digest(200, 3, RICH)


@both_styles
def test_a_larger_count_goes_on_where_a_smaller_one_stopped(spec: GeneratorSpec) -> None:
    assert list(generate_products(300, 5, spec))[:123] == list(generate_products(123, 5, spec))


@both_styles
def test_another_seed_gives_other_products(spec: GeneratorSpec) -> None:
    one, two = ({product.title for product in generate_products(300, seed, spec)} for seed in (1, 2))
    assert len(one & two) < 10


def test_asins_are_unique_ten_characters_and_unlike_their_neighbours() -> None:
    scramble = AsinScramble(seed=3)
    numbers = [*range(50_000), *range(99_950_000, 100_000_000)]
    asins = [scramble(number) for number in numbers]
    assert len(set(asins)) == len(numbers)
    assert all(len(asin) == 10 and asin.startswith("B0") and asin[2:].isdigit() for asin in asins)
    rising = sum(first < second for first, second in itertools.pairwise(asins[:50_000]))
    assert 0.49 < rising / 50_000 < 0.51


def only_difference(first: Product, second: Product) -> Difference:
    """In what two products differ. Raises AssertionError unless it is exactly one thing."""
    found: list[Difference] = []
    assert len(first.attributes) == len(second.attributes)
    attributes = set(first.attributes) ^ set(second.attributes)
    if attributes:
        assert len(attributes) == 2
        found.append(Difference.ATTRIBUTE)
    assert list(first.options) == list(second.options)
    values = [(set(first.options[name]), set(second.options[name])) for name in first.options]
    changed = [one ^ other for one, other in values if one != other]
    if changed:
        assert [len(change) for change in changed] == [2]
        found.append(Difference.OPTION)
    if first.pricing != second.pricing:
        found.append(Difference.PRICE)
    same_text = (first.title, first.description, first.bullets) == (second.title, second.description, second.bullets)
    # A rich title may end with the first value of a group, which may be the one that differs.
    assert same_text or found in ([Difference.ATTRIBUTE], [Difference.OPTION])
    assert (first.query, first.product_category, first.title.split()[0]) == (
        second.query,
        second.product_category,
        second.title.split()[0],
    )
    assert len(found) == 1, (first, second)
    return found[0]


@both_styles
def test_every_two_near_duplicates_differ_in_exactly_one_thing(spec: GeneratorSpec) -> None:
    seen: Counter[Difference] = Counter()
    for family in families(3000, 2, spec):
        for (blueprint, one), (_, other) in itertools.combinations(family, 2):
            difference = only_difference(one, other)
            assert difference is blueprint.difference
            seen[difference] += 1
    assert set(seen) == set(Difference)
    assert min(seen.values()) > 0.1 * seen.total()


def test_an_attribute_that_tells_near_duplicates_apart_stands_in_the_title() -> None:
    for family in families(2000, 4, SIMPLE):
        for blueprint, product in family:
            if blueprint.difference is Difference.ATTRIBUTE:
                assert blueprint.own in product.title.lower()


def test_near_duplicates_in_price_are_further_apart_than_a_price_cap_may_be() -> None:
    for family in families(4000, 4, RICH):
        if family[0][0].difference is Difference.PRICE:
            prices = sorted(product.pricing[0] for _, product in family)
            assert all(second - first >= PRICE_GAP - 0.01 for first, second in itertools.pairwise(prices))


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_the_share_of_near_duplicates_and_their_number_are_as_asked(share: float) -> None:
    spec = replace(RICH, near_duplicates=share, family_size=FamilySize(2, 3))
    members = Counter(blueprint.family for blueprint in itertools.islice(generate_blueprints(1, spec), 5000))
    sizes = list(members.values())[:-1]
    assert set(sizes) <= {1, 2, 3}
    assert sum(size for size in sizes if size > 1) / sum(sizes) == pytest.approx(share, abs=0.04)


def test_shares_of_instructions_are_as_asked() -> None:
    spec = replace(RICH, synthetic_share=0.2, human_share=0.7)
    products = list(generate_products(4000, 1, spec))
    assert sum(product.synthetic is not None for product in products) / 4000 == pytest.approx(0.2, abs=0.03)
    assert sum(bool(product.human) for product in products) / 4000 == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("most", [1, 2, 6, 30])
def test_no_product_has_more_combinations_of_options_than_asked(most: int) -> None:
    for product in generate_products(1000, 1, replace(RICH, combinations=most)):
        combinations = 1
        for values in product.options.values():
            combinations *= len(values)
        assert combinations <= most


def test_only_the_areas_asked_for_are_sold_and_by_default_all() -> None:
    beauty = replace(SIMPLE, areas=("beauty",))
    assert {product.category for product in generate_products(100, 1, beauty)} == {"beauty"}
    counts = Counter(product.category for product in generate_products(2000, 1))
    assert set(counts) == set(AREAS)
    assert min(counts.values()) > 150


@both_styles
def test_products_are_clean_and_complete(spec: GeneratorSpec) -> None:
    buttons = {"search", "back to search", "< prev", "next >", "description", "features", "reviews", "attributes"}
    for product in generate_products(3000, 9, spec):
        instructions = [*([product.synthetic] if product.synthetic else []), *product.human]
        texts = [product.title, product.description, *product.bullets, product.query, *product.attributes]
        texts += [*product.options, *itertools.chain(*product.options.values())]
        texts += [instruction.text for instruction in instructions]
        for text in texts:
            assert text.isascii() and text.isprintable(), text
            assert text == text.strip() and "  " not in text, text
            assert not set(text) & set('[]{}<>"\\/'), text
        values = list(itertools.chain(*product.options.values()))
        assert len(set(values)) == len(values)
        assert not set(values) & (buttons | {"buy now"})
        assert not any("," in value or value != value.lower() for value in values)
        assert len(set(product.attributes)) == len(product.attributes) >= 2
        assert all(0 < price < 100_000 and round(price, 2) == price for price in product.pricing)
        assert product.price_tag == " to ".join(f"${price}" for price in product.pricing)
        assert list(product.pricing) == sorted(product.pricing)
        assert product.query and product.title_nouns and product.product_category.count(" › ") >= 2
        assert (product.rating, product.main_image) == ("N.A.", NO_IMAGE)
        assert all(instruction.attributes for instruction in instructions)
        assert all(set(instruction.attributes) <= set(product.attributes) for instruction in instructions)


def test_simple_titles_have_eight_words_at_most() -> None:
    lengths = [len(product.title.split()) for product in generate_products(3000, 2, SIMPLE)]
    assert max(lengths) <= TITLE_WORDS
    assert all(len(product.description.split()) < 30 for product in generate_products(300, 2, SIMPLE))


def test_rich_products_have_the_lengths_and_the_long_tail_of_a_real_shop() -> None:
    products = list(generate_products(3000, 2))
    terms = sorted(len(analyze(indexed_text(product))) for product in products[:1000])
    # The original's 1,000 products have 107.6 terms each on average, and a quarter of them fewer than 46.
    assert 95 < sum(terms) / len(terms) < 120
    assert 40 < terms[250] < 60
    assert 15 < sum(len(product.title.split()) for product in products) / len(products) < 24
    counts = Counter(product.title.split()[0] for product in products)
    assert len(counts) > 1200
    assert counts.most_common(1)[0][1] < 150


def test_products_stream_in_bounded_memory() -> None:
    stream = generate_products(10_000_000, 1)
    for _ in itertools.islice(stream, 1000):
        pass
    tracemalloc.start()
    for _ in itertools.islice(stream, 1500):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"style": "plain"}, "style: unknown 'plain'; there are rich, simple"),
        ({"near_duplicates": 1.5}, "near duplicates: 1.5 is not a share"),
        ({"synthetic_share": -0.1}, "synthetic share: -0.1 is not a share"),
        ({"human_share": float("nan")}, "human share: nan is not a share"),
        ({"family_size": "two"}, "family size: 'two' is not a number or a range such as 2-4"),
        ({"family_size": "1-3"}, "family size: 1-3 must lie within 2-5"),
        ({"family_size": "4-3"}, "family size: 4-3 must lie within 2-5"),
        ({"combinations": 0}, "combinations: 0 must be at least 1"),
        ({"areas": ("toys",)}, "areas: unknown toys; there are fashion"),
        ({"areas": ()}, "areas: none given; there are fashion"),
    ],
)
def test_a_knob_that_makes_no_sense_is_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(EnvironmentDataError) as error:
        make_spec(**arguments)  # type: ignore[arg-type]
    assert message in str(error.value)


@pytest.mark.parametrize("count", [0, -5, 100_000_001])
def test_an_impossible_count_is_named_at_once(count: int) -> None:
    with pytest.raises(EnvironmentDataError, match=f"products: {count} must be from 1 to 100,000,000"):
        generate_products(count, 1)


def test_a_spec_tells_everything_that_decides_the_products() -> None:
    told = make_spec("simple", near_duplicates=0.1).to_json()
    assert told["near_duplicates"] == 0.1
    assert set(asdict(SIMPLE)) <= set(told)
