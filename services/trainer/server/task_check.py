"""Whether the env servers have what a recipe asks for: its environments, splits and options."""

from collections.abc import Iterable, Mapping

from shared.recipe import EnvironmentSettings, Recipe, RecipeFault
from shared.schemas.environment import MAX_GROUP, EnvironmentDescription, InfoValue, OptionDescription


def environment_faults(recipe: Recipe, there: Mapping[str, EnvironmentDescription]) -> Iterable[RecipeFault]:
    """Everything in the recipe that the env servers do not have."""
    if recipe.rollout.group_size > MAX_GROUP:
        given = str(recipe.rollout.group_size)
        yield RecipeFault("rollout.group_size", given, f"an env server opens at most {MAX_GROUP} sessions at once")
    for place, wanted in enumerate(recipe.environments):
        field = f"environments.{place}"
        description = there.get(wanted.name)
        if description is None:
            known = ", ".join(sorted(there)) or "none"
            yield RecipeFault(f"{field}.name", repr(wanted.name), f"the env servers have: {known}")
            continue
        yield from _split_faults(field, wanted, description, recipe.evaluation.episodes > 0)
        yield from _option_faults(field, wanted, description)


def _split_faults(
    field: str, wanted: EnvironmentSettings, there: EnvironmentDescription, evaluated: bool
) -> Iterable[RecipeFault]:
    splits = {"split": wanted.split} | ({"eval_split": wanted.eval_split} if evaluated else {})
    for key, split in splits.items():
        if there.splits.get(split, 0) < 1:
            sizes = ", ".join(f"{name} ({size} tasks)" for name, size in there.splits.items() if size)
            yield RecipeFault(f"{field}.{key}", repr(split), f"{wanted.name} has the splits {sizes or '(none)'}")


def _option_faults(field: str, wanted: EnvironmentSettings, there: EnvironmentDescription) -> Iterable[RecipeFault]:
    known = {option.name: option for option in there.options}
    for name, value in wanted.options.items():
        if name not in known:
            message = f"{wanted.name} has no such option; it has {', '.join(known) or 'none'}"
            yield RecipeFault(f"{field}.options.{name}", repr(value), message)
        elif (allowed := _allowed(known[name], value)) is not None:
            yield RecipeFault(f"{field}.options.{name}", repr(value), f"must be {allowed}")


def _allowed(option: OptionDescription, value: InfoValue) -> str | None:
    """What the option may be, where ``value`` is not that."""
    if option.choices is not None:
        return None if value in option.choices else " or ".join(map(repr, option.choices))
    kinds: dict[type, tuple[tuple[type, ...], str]] = {
        bool: ((bool,), "true or false"),
        int: ((int,), "an integer"),
        float: ((int, float), "a number"),
        str: ((str,), "text"),
    }
    allowed, words = kinds.get(type(option.default), ((), ""))
    fits = not allowed or (isinstance(value, allowed) and isinstance(value, bool) == (bool in allowed))
    return None if fits else words
