"""How text becomes terms: the rules of Lucene's English analyzer that a shop's texts meet."""

import time

import pytest

from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.search.analyzer import STOP_WORDS, analyze
from services.env_server.environments.webshop.search.stemmer import stem
from services.env_server.environments.webshop.search.text import indexed_text
from services.env_server.environments.webshop.search.tokenizer import tokenize


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("wi-fi a/b (c)", ["wi", "fi", "a", "b", "c"]),
        ("don't u.s.a 3.5 1,000 5'7 x_y", ["don't", "u.s.a", "3.5", "1,000", "5'7", "x_y"]),
        ("color:red 4:3 a;b 1;2 3.a a.3", ["color:red", "4", "3", "a", "b", "1;2", "3", "a", "a", "3"]),
        ("end. 'quoted' ...dots a..b _ __ _a_", ["end", "quoted", "dots", "a", "b", "_a_"]),
        ("café ﬁne ＡＢＣ１２", ["café", "ﬁne", "ＡＢＣ１２"]),
        ("don’t material：metal joggers·not 1⁄2 360º", ["don’t", "material：metal", "joggers·not", "1⁄2", "360º"]),
        ("小米カタカナひら한국어", ["小", "米", "カタカナ", "ひ", "ら", "한국어"]),
        ("ภาษาไทย", ["ภาษาไทย"]),
        ("❤️★☞™ 👨‍💼 👍🏽 1️⃣ 🇩🇪🇫🇷 2", ["❤️", "★", "☞", "™", "👨‍💼", "👍🏽", "1️⃣", "🇩🇪", "🇫🇷", "2"]),
        ("tab\tnew\nline\u00a0space\u202fnarrow", ["tab", "new", "line", "space\u202fnarrow"]),
        ("é\u0301a\u200db", ["é\u0301a\u200db"]),
        ("–—…•→", []),
    ],
)  # fmt: skip
def test_words_are_cut_as_by_lucene(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


def test_ascii_words_are_the_same_by_the_rules_for_all_of_unicode() -> None:
    text = "it's 'a' b.c. 1.2.3 x'y_z:1,2 __a__ 5'7\" a_.b 1_,2 q:r:s;t 9a.b8.7 a:1 _:_a"
    assert [token for token in tokenize(f"{text} é") if token != "é"] == tokenize(text)


def test_words_longer_than_lucenes_buffer_are_cut() -> None:
    assert [len(token) for token in tokenize("a" * 600)] == [255, 255, 90]
    assert tokenize("a" * 254 + ".b") == ["a" * 254, "b"]
    assert [len(token) for token in tokenize("é" + "a" * 255)] == [255, 1]
    assert [len(token) for token in tokenize("𝒶" * 128)] == [127, 1]  # two UTF-16 units each
    assert tokenize("_" * 300 + "a") == ["_" * 254 + "a"]


def test_long_texts_take_no_long_time() -> None:
    for piece in ("a", "a.", "_", "❤", "🇩", "#", "1,", "\u200d", "_\u0301", "'"):
        begin = time.thread_time()  # what other tests have left running in this process is not counted
        tokenize(f"é{piece * 5_000}")
        assert time.thread_time() - begin < 2, piece


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(("us", "us"), ("men's", "men'"), ("dresses", "dress"), ("ties", "ti"), ("gas", "ga"), ("agreed", "agre")),
        *(("feed", "feed"), ("plastered", "plaster"), ("motoring", "motor"), ("sing", "sing"), ("rated", "rate")),
        *(("hopping", "hop"), ("falling", "fall"), ("hissing", "hiss"), ("filing", "file"), ("happy", "happi")),
        *(("sky", "sky"), ("trekking", "trek"), ("possibly", "possibl"), ("technology", "technolog")),
        *(("relational", "relat"), ("conditional", "condit"), ("electrical", "electr"), ("hopefulness", "hope")),
        *(("adjustment", "adjust"), ("replacement", "replac"), ("adoption", "adopt"), ("million", "million")),
        *(("probate", "probat"), ("rate", "rate"), ("cease", "ceas"), ("controll", "control"), ("roll", "roll")),
        *(("yyed", "yy"), ("50.00", "50.00"), ("étés", "été")),
    ],
)  # fmt: skip
def test_stems_are_porters_with_lucenes_departures(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_possessives_stop_words_and_capitals() -> None:
    terms = ["women", "men", "shirt", "boi", "queen", "jame"]
    assert analyze("The Women's and men’s SHIRTS, boys' queen＇s James's it's") == terms
    assert len(STOP_WORDS) == 33
    assert analyze("  ") == analyze("") == analyze(" ".join(STOP_WORDS)) == []


def test_only_title_description_first_bullet_and_options_can_be_found() -> None:
    product = Product(
        asin="B000000001",
        category="garden",
        query="console tables",
        product_category="Home › Tables",
        title="Console TABLE",
        description="Solid wood.",
        bullets=("First bullet", "second bullet"),
        pricing=(10.0,),
        price_tag="$10.0",
        options={"color": ("red", "blue"), "size": ("large",)},
        attributes=("easy clean",),
        rating="N.A.",
        main_image="",
        title_nouns=("table",),
    )
    assert indexed_text(product) == "console table solid wood. first bullet color: red, blue, and size: large"
