"""Observations joined by similarity: by hand, by what must hold whatever the texts, and as algorithms use it."""

import subprocess
import sys
from collections import Counter
from itertools import combinations
from math import log, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.trainer.algorithms import CreditEpisode, CreditGroup, GroupCredit, algorithm_of
from services.trainer.algorithms.clustering import representatives
from shared.recipe import AnyAlgorithm, GagpoSettings, GigpoSettings, Normalisation, ValuePool

TEXTS = st.lists(st.lists(st.sampled_from(["a", "b", "c", "dd", "7", "!"]), max_size=4).map(" ".join), max_size=8)


def cosines(texts: list[str]) -> dict[tuple[str, str], float]:
    """Cosine of every two texts' TF-IDF vectors: counts times ln((1 + n) / (1 + texts with the word)) + 1."""
    words = {text: Counter(text.replace("!", "").split()) for text in texts}
    holders = Counter(word for counts in words.values() for word in counts)
    n = sum(bool(counts) for counts in words.values())

    def product(one: str, other: str) -> float:
        idf = {word: log((1 + n) / (1 + holders[word])) + 1 for word in words[one]}
        return sum(words[one][word] * words[other][word] * idf[word] ** 2 for word in words[one])

    found = {}
    for one, other in combinations(sorted(texts), 2):
        sizes = sqrt(product(one, one) * product(other, other))
        found[one, other] = product(one, other) / sizes if sizes else 0.0
    return found


def test_two_texts_are_joined_from_their_cosine_on() -> None:
    # Of "a b" and "a c": idf of a is 1, of b and c ln(3/2) + 1 = 1.405, so the cosine is 1 / (1 + 1.405²) = 0.336.
    assert representatives(["a b", "a c"], 0.33) == {"a b": "a b", "a c": "a b"}
    assert representatives(["a b", "a c"], 0.34) == {"a b": "a b", "a c": "a c"}


def test_a_number_tells_observations_apart() -> None:
    drawers = [f"You arrive at drawer {number}. The drawer {number} is closed." for number in (1, 2, 3)]
    assert len(set(representatives(drawers, 0.9).values())) == 3
    assert len(set(representatives(drawers, 0.3).values())) == 1


def test_the_same_words_in_another_order_are_the_same_at_a_similarity_of_one() -> None:
    texts = ["mug on desk, pen on shelf", "pen on shelf; mug on desk", "mug on shelf"]
    found = representatives(texts, 1.0)
    assert found[texts[0]] == found[texts[1]] != found[texts[2]]


def test_small_differences_make_no_chain() -> None:
    """Each text is like the next one, and the first is nothing like the last."""
    chain = ["a b c d", "b c d e", "c d e f", "d e f g", "e f g h"]
    found = representatives(chain, 0.5)
    assert cosines(chain)["a b c d", "b c d e"] > 0.5
    assert 1 < len(set(found.values())) < 5
    assert found[chain[0]] != found[chain[-1]]


def test_texts_without_words_stay_by_themselves() -> None:
    assert representatives([], 0.5) == {}
    assert representatives(["", "…", "!"], 0.01) == {"": "", "…": "…", "!": "!"}
    assert representatives(["", "a", "a !"], 0.5) == {"": "", "a": "a", "a !": "a"}


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.sampled_from([0.2, 0.5, 0.8, 1.0]), st.randoms(use_true_random=False))
def test_clusters_are_of_similar_texts_and_do_not_depend_on_order(
    texts: list[str], similarity: float, random: object
) -> None:
    found = representatives(texts, similarity)
    assert found.keys() == set(texts)
    for (one, other), cosine in cosines(list(found)).items():
        if found[one] == found[other]:
            assert cosine >= similarity - 1e-6
    shuffled = texts + texts[:2]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert representatives(shuffled, similarity) == found


# As algorithms use it: in the room there is a lamp or not, which the keys tell apart and nobody minds.

ROOM, LAMP = "you are in the big room with the old desk", "you are in the big room with the old desk lamp"
HALL = "hall"


def tree(*, seen: tuple[str, str] = (ROOM, LAMP), final: str = "", task: str = "task") -> CreditGroup:
    return CreditGroup(
        task,
        [
            CreditEpisode([8], ["k1"], "won", True, observations=[seen[0]], final_observation="you won"),
            CreditEpisode([0, 0], ["k2", "k3"], "k4", False, observations=[seen[1], HALL], final_observation=final),
        ],
    )


def credit(settings: AnyAlgorithm, *groups: CreditGroup) -> list[GroupCredit]:
    return algorithm_of(settings, 0.0).credit(groups)


@pytest.mark.parametrize("settings", [GagpoSettings(gamma=0.5, lam=0.5), GigpoSettings(gamma=0.5)])
def test_similar_observations_are_one_state(settings: AnyAlgorithm) -> None:
    (apart,) = credit(settings, tree())
    assert apart.values.tolist() == [8, 0, 0], "by their keys they are three states"
    (joined,) = credit(settings.model_copy(update={"similarity": 0.6}), tree())
    assert joined.values.tolist() == [4, 4, 0]
    assert joined.visits.tolist() == [2, 2, 1]
    assert joined.has_sibling.tolist() == [True, True, False]


def test_equal_observations_are_one_state_whatever_their_keys() -> None:
    (found,) = credit(GagpoSettings(gamma=0.5, similarity=1.0), tree(seen=(ROOM, ROOM)))
    assert found.values.tolist() == [4, 4, 0]


def test_a_cut_episode_may_stop_in_a_state_that_is_similar_to_a_visited_one() -> None:
    settings = GagpoSettings(
        gamma=0.5, similarity=0.6, bootstrap_truncated=True, normalisation=Normalisation.NONE, lam=0.0
    )
    (found,) = credit(settings, tree(final=ROOM + " rug"))
    assert found.deltas.tolist() == [4, 0 + 0.5 * 0 - 4, 0 + 0.5 * 4 - 0]
    (found,) = credit(settings, tree(final="somewhere else"))
    assert found.deltas.tolist() == [4, -4, 0]


def test_observations_are_joined_within_a_task_only() -> None:
    settings = GagpoSettings(gamma=0.5, similarity=0.6)
    alone = credit(settings, tree())[0]
    for group in credit(settings, tree(), tree(task="another")):
        assert group.values.tolist() == alone.values.tolist()
        assert group.visits.tolist() == alone.visits.tolist()
    pooled = GagpoSettings(gamma=0.5, similarity=0.6, value_pool=ValuePool.BATCH)
    assert credit(pooled, tree(), tree(), tree(task="another"))[0].visits.tolist() == [4, 4, 2]


def test_observations_that_are_missing_are_named() -> None:
    blind = CreditGroup("task", [CreditEpisode([0, 1], ["a", "b"], "end", True)])
    with pytest.raises(ValueError, match="2 rewards but 0 observations"):
        credit(GigpoSettings(similarity=0.9), blind)


def test_the_library_is_loaded_only_for_a_recipe_that_needs_it() -> None:
    check = "import sys, services.trainer.algorithms; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], timeout=60).returncode == 0
