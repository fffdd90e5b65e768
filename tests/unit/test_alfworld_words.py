"""The engine reads actions and wording from the game's own domain and grammar: here a game unlike ALFWorld's."""

import pytest

from services.env_server.environments.alfworld.engine import NativeEpisode, observation
from services.env_server.environments.alfworld.game import compile_game
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.alfworld.grammar import GrammarError, Text, parse_symbols
from services.env_server.environments.alfworld.pddl import PddlError, parse_domain
from services.env_server.environments.base import EnvironmentDataError

DOMAIN = """
(define (domain garden) ; a comment
  (:types agent location object)
  (:predicates (atLocation ?a - agent ?l - location) (path ?x - location ?y - location) (lies ?o - object ?l - location)
               (carried ?o - object) (lit ?o - object) (lamp ?o - object) (seen ?l - location))
  (:action walk :parameters (?a - agent ?start - location ?end - location)
    :precondition (and (atLocation ?a ?start) (path ?start ?end))
    :effect (and (not (atLocation ?a ?start)) (atLocation ?a ?end)))
  (:action grab :parameters (?a - agent ?o - object)
    :precondition (exists (?l - location) (and (atLocation ?a ?l) (lies ?o ?l)))
    :effect (and (carried ?o) (forever ?o)
                 (not (lies ?o Shed_bar_1)) (not (lies ?o Pond_bar_1))))
  (:action flip :parameters (?a - agent ?o - object)
    :precondition (and (lamp ?o) (or (carried ?o) (exists (?l - location) (and (atLocation ?a ?l) (lies ?o ?l)))))
    :effect (and (when (lit ?o) (not (lit ?o))) (when (not (lit ?o)) (lit ?o))))
  (:action peer :parameters (?a - agent ?l - location)
    :precondition (atLocation ?a ?l) :effect (seen ?l))
  (:action wordless :parameters (?a - agent) :precondition () :effect (seen ?a))
)
"""
GRAMMAR = '''
# a comment with "quotes" and { braces
grammar :: """
{ "intro": [ { "rhs": "-= Hello =-\\n\\n#peer.feedback#\\n\\n#task#" } ],
  "task": [ { "rhs": "Do this: light up." } ],
  "list_empty": [ { "rhs": "no thing" } ],
  "list_separator": [ { "rhs": " + " } ],
  "list_last_separator": [ { "rhs": ", then " } ],
  "peer.feedback": [
    { "condition": "atlocation(a:agent, l:location)",
      "rhs": "Here: [{o.definite + ' ' + o.name | atlocation(a:agent, l:location) & lies(o:object, l:location)}]." } ],
  "grab.feedback": [ { "rhs": "Got {o.name}." } ],
  "walk.feedback": [ { "rhs": "From {start.name} to {end.name}" } ],
  "flip.feedback": [ { "condition": "lit(o:object)", "rhs": "{o.name} glows" }, { "rhs": "{o.name} is dark" } ] }
""";
action peer { template :: "peer"; feedback :: "#peer.feedback#"; }
action grab { template :: "grab the {o}"; feedback :: "#grab.feedback#"; }
action walk { template :: "walk to {end}"; feedback :: "#walk.feedback#"; }
action flip { template :: "flip {o.name}"; feedback :: "#flip.feedback#"; }
'''.replace('; "', ', "')
PROBLEM = """
(define (problem p) (:domain garden)
  (:objects Me_bar_1 - agent Shed_bar_1 Pond_bar_1 - location Torch_bar_1 Torch_bar_2 Rake_bar_1 - object)
  (:init (atLocation Me_bar_1 Shed_bar_1) (path Shed_bar_1 Pond_bar_1) (path Pond_bar_1 Shed_bar_1)
         (lies Torch_bar_2 Pond_bar_1) (lies Torch_bar_1 Shed_bar_1) (lies Rake_bar_1 Shed_bar_1)
         (lamp Torch_bar_1) (lamp Torch_bar_2) (= (total-cost) 0))
  (:goal (exists (?x - object ?y - object) (and (lit ?x) (lit ?y) (not (= ?x ?y)) (not (carried ?x))))))
"""


def episode(problem: str = PROBLEM, domain: str = DOMAIN, grammar: str = GRAMMAR) -> NativeEpisode:
    """The garden."""
    return NativeEpisode(compile_game(GameSource("t", "t", domain, grammar, problem, "light up", (), ())))


def test_actions_lists_and_articles_come_from_the_games_own_texts() -> None:
    played = episode()
    assert observation(played.turn.feedback) == "Here: the rake 1, then the torch 2.\n\nDo this: light up."
    assert played.turn.admissible == ("flip torch 2", "grab the rake 1", "grab the torch 2", "peer", "walk to pond 1")
    assert played.step("grab the rake 1").feedback == "Got rake 1."
    assert played.step("peer").feedback == "Here: the torch 2."
    played.step("grab the torch 2")
    assert played.step("peer").feedback == "Here: no thing."
    assert played.step("walk to pond 1").feedback == "From shed 1 to pond 1"
    assert played.turn.admissible == ("flip torch 1", "flip torch 2", "grab the torch 1", "peer", "walk to shed 1")


def test_conditional_effects_look_at_the_state_before_the_action() -> None:
    played = episode()
    said = [played.step("flip torch 2").feedback for _ in range(3)]
    assert said == ["torch 2 glows", "torch 2 is dark", "torch 2 glows"]


def test_a_goal_over_two_things_needs_two_of_them() -> None:
    played = episode()
    played.step("flip torch 2")
    played.step("walk to pond 1")
    assert not played.turn.won
    assert played.step("flip torch 1").won
    assert (played.turn.reward, played.turn.done) == (1.0, True)


def test_negative_conditions_of_the_goal_count() -> None:
    played = episode()
    for command in ("grab the torch 2", "flip torch 2", "walk to pond 1", "grab the torch 1", "flip torch 1"):
        assert played.step(command).understood
    assert not played.turn.won


def test_an_action_without_words_cannot_be_typed() -> None:
    assert "wordless" not in episode().turn.admissible


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("(lies Rake_bar_1 Shed_bar_1)", "(lies Ghost_bar_1 Shed_bar_1)"), "ghost_bar_1"),
        (("(atLocation Me_bar_1 Shed_bar_1)", ""), "exactly one atlocation"),
        (("(:goal (exists", "(:goal (forall"), "forall"),
        (("(define", "((define"), "balanced"),
    ],
)
def test_a_broken_problem_is_refused_and_the_error_says_why(change: tuple[str, str], message: str) -> None:
    with pytest.raises(PddlError, match=message):
        episode(problem=PROBLEM.replace(*change))


def test_constructs_that_are_not_known_are_refused() -> None:
    with pytest.raises(PddlError, match="forall"):
        parse_domain(DOMAIN.replace("(carried ?o) (forever ?o)", "(forall (?x - object) (carried ?x))"))
    with pytest.raises(GrammarError, match="more than names"):
        parse_symbols("{o.name.upper()}")
    with pytest.raises(GrammarError, match="does not define"):
        episode(grammar=GRAMMAR.replace("to {end.name}", "to #nowhere#")).step("walk to pond 1")


def test_a_damaged_game_is_refused_by_name() -> None:
    for domain, grammar in (
        (DOMAIN, GRAMMAR.replace('"rhs"', '"rsh"')),
        (DOMAIN, GRAMMAR[:200]),
        (DOMAIN[:300], GRAMMAR),
    ):
        with pytest.raises(EnvironmentDataError, match=r"^t: "):
            episode(domain=domain, grammar=grammar)


def test_a_goal_that_the_grammar_does_not_hold_cannot_be_replaced() -> None:
    source = GameSource("t", "t", DOMAIN, GRAMMAR, PROBLEM, "dig a hole", (), ())
    with pytest.raises(GrammarError, match="dig a hole"):
        compile_game(source, "plant a tree")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (" (it is open)", ["(it is open)"]),
        ("  \n x", ["x"]),
        ("#x#\n\n#y#", ["#x", "\n\n", "#y"]),
        ("a\t#x#\tb", ["a\t", "#x", "b"]),
        ("x;y", ["x"]),
        ("#x# (in/on the #y#)} tail", ["#x", " (in/on the ", "#y", ")"]),
        ('"quoted" text', ["quoted", " text"]),
    ],
)
def test_white_space_and_strange_characters_are_read_as_stock_reads_them(text: str, parsed: list[str]) -> None:
    found = [symbol.text if isinstance(symbol, Text) else f"#{symbol.name}" for symbol in parse_symbols(text)]  # type: ignore[union-attr]
    assert found == parsed
