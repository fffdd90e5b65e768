"""What generated products ask for: every goal can be won, is understood, found, and told from near-duplicates."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.open import open_path
from services.env_server.environments.webshop.expert import Expert
from services.env_server.environments.webshop.generated import GeneratedSource
from services.env_server.environments.webshop.generator import RICH, SIMPLE, GeneratorSpec, generate_products
from services.env_server.environments.webshop.generator.blueprint import Difference
from services.env_server.environments.webshop.generator.generate import generate_blueprints
from services.env_server.environments.webshop.generator.listing import spoken
from services.env_server.environments.webshop.goal import Goal, GoalKind
from services.env_server.environments.webshop.goals import combination, combinations
from services.env_server.environments.webshop.product import Instruction, Product
from services.env_server.environments.webshop.reward import score
from services.env_server.environments.webshop.reward.colours import plain_value
from services.env_server.environments.webshop.reward.fuzzy import matches_any
from services.env_server.environments.webshop.reward.score import has_attribute
from services.env_server.environments.webshop.search.text import indexed_text

both_styles = pytest.mark.parametrize("spec", [RICH, SIMPLE], ids=["rich", "simple"])


def goal_of(product: Product, wanted: Instruction, options: Mapping[str, str] | tuple[str, ...]) -> Goal:
    return Goal(
        kind=GoalKind.SYNTHETIC if isinstance(options, Mapping) else GoalKind.HUMAN,
        index=0,
        asin=product.asin,
        instruction=wanted.text,
        attributes=wanted.attributes,
        options=options,
        price_upper=max(product.pricing),
        query=product.query,
        category=product.category,
        product_category=product.product_category,
        title=product.title,
        title_nouns=product.title_nouns,
        weight=1.0,
    )


def goals_of(product: Product) -> Iterator[tuple[Goal, dict[str, str]]]:
    """Every goal of a product, with the options to choose."""
    if product.synthetic:
        for number in range(combinations(product.options)):
            options = combination(product.options, number)
            yield goal_of(product, product.synthetic, options), options
    for wanted in product.human:
        names = {value: name for name, values in product.options.items() for value in values}
        yield goal_of(product, wanted, wanted.options), {names[value]: value for value in wanted.options}


@both_styles
def test_every_goal_is_won_with_its_own_product_and_options(spec: GeneratorSpec) -> None:
    kinds = dict.fromkeys(GoalKind, 0)
    for product in generate_products(2000, 6, spec):
        for goal, options in goals_of(product):
            assert score(goal, product, max(product.pricing), options).total == 1.0, (goal, options)
            kinds[goal.kind] += 1
    assert min(kinds.values()) > 400


@both_styles
def test_another_value_of_an_option_does_not_win(spec: GeneratorSpec) -> None:
    for product in generate_products(600, 8, spec):
        for goal, options in goals_of(product):
            for name, value in options.items():
                for other in set(product.options[name]) - {value}:
                    bought = score(goal, product, max(product.pricing), options | {name: other})
                    assert bought.total < 1.0, (goal, name, value, other)


@both_styles
def test_what_tells_a_product_from_its_near_duplicates_is_asked_for_and_they_lack_it(spec: GeneratorSpec) -> None:
    families = defaultdict(list)
    for blueprint, product in zip(generate_blueprints(3, spec), generate_products(3000, 3, spec), strict=False):
        families[blueprint.family].append((blueprint, product))
    checked = dict.fromkeys(Difference, 0)
    for (blueprint, product), (_, other) in itertools.chain.from_iterable(
        itertools.permutations(family, 2) for family in families.values()
    ):
        for goal, _ in goals_of(product):
            if blueprint.difference is Difference.ATTRIBUTE:
                assert blueprint.own in goal.attributes
                assert not has_attribute(other, blueprint.own)
            elif blueprint.difference is Difference.OPTION:
                wanted = list(goal.options.values()) if isinstance(goal.options, Mapping) else list(goal.options)
                if goal.kind is GoalKind.HUMAN:
                    assert blueprint.own in wanted
                if blueprint.own in wanted:
                    offered = itertools.chain.from_iterable(other.options.values())
                    assert not matches_any(plain_value(blueprint.own), tuple(map(plain_value, offered)))
            if blueprint.difference:
                checked[blueprint.difference] += 1
    assert min(checked.values()) > 100


@both_styles
def test_an_instruction_says_all_that_the_reward_looks_for(spec: GeneratorSpec) -> None:
    for product in generate_products(2000, 12, spec):
        if product.synthetic:
            assert product.query in product.synthetic.text
            assert all(attribute in product.synthetic.text for attribute in product.synthetic.attributes)
        for wanted in product.human:
            assert wanted.text == wanted.text.lower().strip(". ")
            assert all(spoken(attribute) in wanted.text for attribute in wanted.attributes)
            assert all(value in wanted.text for value in wanted.options)


@both_styles
def test_every_word_of_an_attribute_or_option_can_be_searched_for(spec: GeneratorSpec) -> None:
    for product in generate_products(2000, 13, spec):
        text = indexed_text(product)
        for phrase in (*product.attributes, *itertools.chain(*product.options.values())):
            assert all(word in text for word in phrase.split()), (phrase, text)


@both_styles
def test_products_of_one_kind_are_never_taken_for_different_kinds(spec: GeneratorSpec) -> None:
    by_query: dict[str, list[Product]] = defaultdict(list)
    for product in generate_products(2000, 14, spec):
        by_query[product.query].append(product)
    for products in by_query.values():
        for one, other in itertools.permutations(products[:6], 2):
            goal = goal_of(one, Instruction("", one.attributes), ())
            assert score(goal, other, 0.0, {}).kind.factor == 1.0


@both_styles
def test_the_expert_wins_every_goal(spec: GeneratorSpec, tmp_path: Path) -> None:
    build_catalogue(GeneratedSource(150, 21, spec), tmp_path / "shop", seed=1)
    world = open_path(tmp_path / "shop")
    for kind in GoalKind:
        goals = world.goals(kind)
        assert len(goals) > 20
        lost = [goals.goal(index) for index in range(len(goals)) if not Expert(world, goals.goal(index)).wins]
        assert not lost


def test_the_price_cap_of_a_goal_leaves_out_dearer_near_duplicates(tmp_path: Path) -> None:
    build_catalogue(GeneratedSource(2000, 21), tmp_path / "shop", seed=1)
    world = open_path(tmp_path / "shop")
    dearer = defaultdict(list)
    for number, blueprint in zip(range(2000), generate_blueprints(21), strict=False):
        if blueprint.difference is Difference.PRICE:
            dearer[blueprint.family].append(number)
    family_of = {world.product(number).asin: family for family in dearer.values() for number in family}
    goals = world.goals(GoalKind.SYNTHETIC)
    checked = 0
    for goal in map(goals.goal, range(len(goals))):
        own = world.number_of(goal.asin)
        for number in family_of.get(goal.asin, []):
            assert own is not None
            if world.price(number) > world.price(own) and goal.price_upper < 1000:
                assert world.price(number) > goal.price_upper
                checked += 1
    assert checked > 50


@both_styles
def test_prices_leave_room_for_a_cap(spec: GeneratorSpec) -> None:
    products = list(generate_products(1000, 2, spec))
    prices = [price for product in products for price in product.pricing]
    assert min(prices) >= 3
    assert sum(price < 970 for price in prices) / len(prices) > 0.95
