"""The official files become the products that the original makes of them; bad ones are named or counted."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.open import open_world
from services.env_server.environments.webshop.find_source import find_source
from services.env_server.environments.webshop.goal import GoalKind
from services.env_server.environments.webshop.official import OfficialFiles, OfficialSource
from services.env_server.environments.webshop.product import Instruction, Product
from tests.webshop_official import official_of, write_official
from tests.webshop_recorded import recorded_products

PLAIN: dict[str, Any] = {
    "asin": "B000000001",
    "name": "A chair",
    "category": "garden",
    "query": "chairs",
    "product_category": "Home › Chairs",
    "full_description": "To sit on.",
    "small_description": ["Four legs"],
    "pricing": "$12.99",
    "customization_options": None,
    "images": ["https://example.org/chair.jpg"],
}
KNOWN = {
    "B000000001": {"attributes": ["sturdy"], "instruction": "Find me a chair", "instruction_attributes": ["sturdy"]}
}


def cleaned(
    folder: Path, *items: Any, attributes: Any = KNOWN, human: Any = None
) -> tuple[list[Product], dict[str, int]]:
    source = OfficialSource(write_official(folder, items, attributes, human or {}))
    return list(source.cleaned()), dict(source.notes)


def one(folder: Path, **changes: Any) -> Product:
    products, _ = cleaned(folder, PLAIN | changes)
    return products[0]


def without_nouns(product: Product) -> Product:
    return dataclasses.replace(product, title_nouns=())


def test_all_recorded_products_come_out_of_the_official_files(tmp_path: Path) -> None:
    source = OfficialSource(official_of(recorded_products(), tmp_path))
    assert list(source.cleaned()) == [without_nouns(product) for product in recorded_products()]
    assert not source.notes


@pytest.mark.slow
def test_a_catalogue_of_the_official_files_holds_the_recorded_products_with_their_title_nouns(tmp_path: Path) -> None:
    pytest.importorskip("spacy", reason="needs the extra webshop-build")
    official_of(recorded_products(), tmp_path)
    source = find_source(tmp_path, processes=2)
    assert source is not None
    build_catalogue(source, tmp_path / "shop")
    world = open_world(tmp_path / "shop")
    assert tuple(world.product(number) for number in range(len(world))) == recorded_products()
    assert (len(world.goals(GoalKind.SYNTHETIC)), len(world.goals(GoalKind.HUMAN))) == (6910, 13)


def test_without_spacy_a_build_stops_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    source = OfficialSource(write_official(tmp_path, [PLAIN], KNOWN, {}))
    with pytest.raises(EnvironmentDataError, match=r"need spaCy.* -m pip install 'gagpo\[webshop-build\]'"):
        next(source.products())


@pytest.mark.parametrize(
    ("pricing", "prices", "tag"),
    [
        ("$12.99", (12.99,), "$12.99"),
        ("$10.00$20.00", (10.0, 20.0), "$10.0 to $20.0"),
        ("$1,234.50", (1234.5,), "$1234.5"),
        ("from $5 - $7.25 each", (5.0, 7.25), "$5.0 to $7.25"),
        ("$1$2$3", (1.0, 2.0), "$1.0 to $2.0"),
        ("", (100.0,), "$100.0"),
        (None, (100.0,), "$100.0"),
    ],
)
def test_listed_prices(tmp_path: Path, pricing: str | None, prices: tuple[float, ...], tag: str) -> None:
    product = one(tmp_path, pricing=pricing)
    assert (product.pricing, product.price_tag) == (prices, tag)


@pytest.mark.parametrize("pricing", ["12.99", "$", "$free", "$1.2.3", 12.99])
def test_a_price_that_is_none_is_taken_as_unlisted_and_counted(tmp_path: Path, pricing: object) -> None:
    (product,), notes = cleaned(tmp_path, PLAIN | {"pricing": pricing})
    assert product.pricing == (100.0,)
    assert notes == {"kept with a price of 100.0 because pricing is not like $1.23 or $1.23$4.56": 1}


def test_options_are_lower_cased_and_their_slashes_replaced(tmp_path: Path) -> None:
    options = {
        "Size Name": [{"value": " 5/6 US "}, {"value": "Ä/ö"}, {"value": "5/6 US"}],
        "Style": None,
        "Fit Type": [],
    }
    product = one(tmp_path, customization_options=options)
    assert product.options == {"size name": ("5 | 6 us", "ä | ö", "5 | 6 us"), "fit type": ()}


def test_a_product_with_nothing_but_a_name_is_kept_and_what_it_lacks_is_counted(tmp_path: Path) -> None:
    (product,), notes = cleaned(tmp_path, {"asin": "B000000002", "name": "", "customization_options": "none"})
    assert product == Product(
        asin="B000000002",
        category="",
        query="",
        product_category="",
        title="",
        description="",
        bullets=(),
        pricing=(100.0,),
        price_tag="$100.0",
        options={},
        attributes=("DUMMY_ATTR",),
        rating="N.A.",
        main_image="",
        title_nouns=(),
    )
    lacking = ("category", "query", "product_category", "full_description", "small_description", "an image")
    because = "options because customization_options is not a JSON object"
    assert notes == {f"kept without {what}": 1 for what in (*lacking, because)}


def test_what_is_no_product_is_left_out_and_counted(tmp_path: Path) -> None:
    bad = [
        "text",
        {"name": "no asin"},
        PLAIN | {"asin": "nan"},
        PLAIN | {"asin": "B0000000012"},
        PLAIN | {"asin": "É"},
        PLAIN | {"asin": "b1"},
    ]
    nameless = PLAIN | {"asin": "B000000003", "name": None}
    products, notes = cleaned(tmp_path, *bad, PLAIN, PLAIN | {"name": "again"}, nameless)
    assert [product.title for product in products] == ["A chair"]
    assert notes == {
        "left out: not a JSON object": 1,
        "left out: without a usable asin": 3,
        "left out: asin is nan or has more than 10 characters": 2,
        "left out: asin repeated; the first product was kept": 1,
        "left out: without a name": 1,
    }


def test_options_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    options = {"size": [{"value": 5}], "color": "red", "style": [{"value": "round"}]}
    (product,), notes = cleaned(tmp_path, PLAIN | {"customization_options": options})
    assert product.options == {"style": ("round",)}
    assert notes == {"kept without an option whose values are not texts": 2}


def test_half_surrogates_do_not_stop_a_build(tmp_path: Path) -> None:
    assert one(tmp_path, name="broken \ud83d smile 😀").title == "broken \ufffd smile 😀"


def test_instructions_come_from_the_other_files(tmp_path: Path) -> None:
    human = {
        "B000000001": [
            {"instruction": "a chair please", "instruction_attributes": ["sturdy"], "instruction_options": ["red"]},
            {"instruction": "anything", "instruction_attributes": [], "instruction_options": []},
        ]
    }
    (product,), _ = cleaned(tmp_path, PLAIN, human=human)
    assert product.synthetic == Instruction("Find me a chair", ("sturdy",))
    assert product.human == (Instruction("a chair please", ("sturdy",), ("red",)),)
    assert product.attributes == ("sturdy",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it ends too early"),
        ("{}", r"'\{' stands where '\[' belongs"),
        ('[{"asin": "B000000001", "na', "after 0 items, Unterminated string"),
        (json.dumps([PLAIN])[:-1] + ", ", "after 1 items, it ends too early"),
        (json.dumps([PLAIN])[:-1] + "] x", "something follows the end"),
        ("[]", r"no usable product \(the array is empty\)"),
        ('[1, "a"]', r"no usable product \(2 left out: not a JSON object\): is it the right file"),
    ],
)
def test_a_damaged_or_foreign_product_file_is_named(tmp_path: Path, content: str, message: str) -> None:
    files = write_official(tmp_path, [], KNOWN, {})
    files.products.write_text(content, "utf-8")
    with pytest.raises(EnvironmentDataError, match=f"items_shuffle_1000.json.*{message}"):
        list(OfficialSource(files).cleaned())


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    files = write_official(tmp_path, [], KNOWN, {})
    files.products.write_bytes(b'[{"asin": "\xff\xfe"}]')
    with pytest.raises(EnvironmentDataError, match=r"items_shuffle_1000.json.*can't decode"):
        list(OfficialSource(files).cleaned())


@pytest.mark.parametrize(
    ("attributes", "human", "message"),
    [
        ([], {}, "items_ins_v2_1000.json.*'\\[' stands where '{' belongs"),
        ({"B000000001": ["sturdy"]}, {}, "items_ins_v2_1000.json: B000000001: Expected `object`, got `array`"),
        (KNOWN, {"B000000001": [{"instruction": 3}]}, r"items_human_ins.json: B000000001.0.instruction: .*string"),
        (KNOWN, ["x"], "items_human_ins.json: the whole file.*must be one JSON object of asins"),
    ],
)
def test_a_bad_attributes_or_human_file_is_named(tmp_path: Path, attributes: Any, human: Any, message: str) -> None:
    with pytest.raises(EnvironmentDataError, match=message):
        cleaned(tmp_path, PLAIN, attributes=attributes, human=human)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentDataError, match=r"gone.json does not exist; `gagpo data webshop` downloads"):
        OfficialSource(OfficialFiles(tmp_path / "gone.json", tmp_path / "b.json", None))


def test_a_folder_with_two_sets_or_half_of_one_is_refused(tmp_path: Path) -> None:
    write_official(tmp_path, [PLAIN], KNOWN, {})
    (tmp_path / "items_shuffle.json").write_text("[]", "utf-8")
    with pytest.raises(EnvironmentDataError, match=r"holds several sets .*items_shuffle.json.*--products"):
        find_source(tmp_path)
    (tmp_path / "items_shuffle_1000.json").unlink()
    (tmp_path / "items_ins_v2_1000.json").unlink()
    with pytest.raises(EnvironmentDataError, match=r"holds items_shuffle.json but no items_ins_v2\*.json"):
        find_source(tmp_path)
