"""Warm-up of the small policy: imitate a searching expert, and stay unsure enough to explore.

    python -m services.trainer.warmstart --recipe configs/alfworld-cpu.toml --env-url http://127.0.0.1:8001 --out DIR

Expert episodes come from the env server over HTTP, prompts from the same builder and template as rollouts. The folder
is handed over only when the policy wins often enough on held-out tasks: below a few percent a group of episodes
has no success to learn from, whatever the loss says.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from tqdm import tqdm
from transformers import LlamaForCausalLM

from services.trainer.small_policy.checkpoint import save_policy
from services.trainer.small_policy.model import build_model
from services.trainer.small_policy.readings import READINGS
from services.trainer.small_policy.sampling import sample_actions
from services.trainer.warmstart_episodes import EnvServer, SlippingExpert, play
from services.trainer.warmstart_fit import batches, fit, rows
from services.trainer.warmstart_plans import PLANS, Lesson, PlanChanges, WarmstartSettings, changed
from services.trainer.warmstart_report import Scores, WarmstartReport, write_card
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import Recipe, load_recipe
from shared.schemas.environment import Observation


class WarmstartError(Exception):
    """The policy is not fit to start from; the message has the figures and what to change."""


def warm_start(
    recipe: Recipe, env_url: str, out: Path, settings: WarmstartSettings, first_lesson: Path | None = None
) -> WarmstartReport:
    """Make a policy and put it into ``out``, which is replaced as a whole. Raises `WarmstartError`.

    What the first lesson made is kept in ``first_lesson``; where that folder is there, it is not taught again.
    """
    environment = recipe.environments[0]
    began = time.monotonic()
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        reading = READINGS[environment.name]
        known = first_lesson is not None and first_lesson.exists()
        model = (
            LlamaForCausalLM.from_pretrained(first_lesson, dtype=torch.float32)
            if known
            else build_model(settings.size, settings.seed, reading, settings.start)
        )
        save_policy(model, draft, reading)
        builder = PromptBuilder(recipe.prompt, PolicyTokenizer(draft))
        with EnvServer(env_url, environment) as server:
            samples = 0
            if not known:
                samples = _teach(server, builder, model, environment.split, settings.knowledge, settings.seed)
                if first_lesson is not None:
                    save_policy(model, first_lesson, reading)
            knowledge = evaluate(server, builder, model, recipe, settings.evaluation_episodes)
            scores = knowledge
            if settings.doubt is not None:
                samples += _teach(server, builder, model, environment.split, settings.doubt, settings.seed + 1)
                scores = evaluate(server, builder, model, recipe, settings.evaluation_episodes)
            data_digest = server.data_digest()
        report = WarmstartReport(scores, knowledge, samples, time.monotonic() - began)
        if scores.success < settings.min_success:
            raise WarmstartError(
                f"the policy wins {scores.success:.1%} of {settings.evaluation_episodes} held-out episodes, less than "
                f"--min-success {settings.min_success:.0%} ({knowledge.success:.1%} after the first lesson, "
                f"{scores.invalid:.1%} invalid actions): nothing was written. Give more --episodes or --epochs, less "
                "--doubt or --haste, or easier tasks"
            )
        save_policy(model, draft, reading)
        write_card(draft, recipe, settings, report, model.num_parameters(), data_digest)
        draft.chmod(0o755)  # temporary folders and safetensors files are made private
        for file in draft.iterdir():
            file.chmod(0o644)
        shutil.rmtree(out, ignore_errors=True)
        draft.rename(out)
        return report
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _teach(
    server: EnvServer, builder: PromptBuilder, model: LlamaForCausalLM, split: str, lesson: Lesson, seed: int
) -> int:
    """Collect a lesson's episodes and train the model on them, in place. How many steps it imitates."""
    expert = SlippingExpert(builder, lesson.teacher, seed)
    known = server.tasks(split)
    tasks = [known[number % len(known)] for number in range(lesson.episodes)]
    with tqdm(total=len(tasks), desc="expert episodes", unit="ep", file=sys.stderr) as bar:
        for _ in play(server, builder, tasks, expert.options, expert):
            bar.update()
    found = rows(expert.episodes())
    smoothed = 0.0
    with tqdm(total=batches(len(found), lesson.fit), desc="imitating", unit="batch", file=sys.stderr) as bar:

        def on_batch(loss: float) -> None:
            nonlocal smoothed
            smoothed = 0.98 * smoothed + 0.02 * loss if smoothed else loss
            bar.set_postfix(loss=f"{smoothed:.3f}", refresh=False)
            bar.update()

        fit(model, found, lesson.fit, seed, on_batch)
    return sum(len(episode) for episode in expert.episodes())


def evaluate(
    server: EnvServer, builder: PromptBuilder, model: LlamaForCausalLM, recipe: Recipe, episodes: int
) -> Scores:
    """Scores on one episode of each of the first tasks of the held-out split, sampled as the recipe evaluates."""
    generator = torch.Generator().manual_seed(recipe.evaluation.seed)
    known = server.tasks(recipe.environments[0].eval_split)

    def act(prompts: Sequence[list[int]], seen: Sequence[Observation]) -> list[str]:
        sampled = sample_actions(
            model,
            prompts,
            temperature=recipe.evaluation.temperature,
            max_tokens=recipe.sampling.max_tokens,
            generator=generator,
        )
        return [builder.action(token_ids) for token_ids in sampled]

    tasks = [known[number % len(known)] for number in range(episodes)]
    with tqdm(total=len(tasks), desc="held-out episodes", unit="ep", file=sys.stderr) as bar:
        outcomes = []
        for outcome in play(server, builder, tasks, lambda number: {}, act):
            outcomes.append(outcome)
            bar.update()
    steps = sum(outcome.steps for outcome in outcomes)
    return Scores(
        success=sum(outcome.won for outcome in outcomes) / len(outcomes),
        reward=sum(outcome.reward for outcome in outcomes) / len(outcomes),
        mean_steps=steps / len(outcomes),
        invalid=sum(outcome.invalid for outcome in outcomes) / steps,
    )


def main(
    recipe: Annotated[Path, typer.Option(help="The recipe to warm up for: its tasks, prompt and step limit.")],
    env_url: Annotated[str, typer.Option(help="An env server that serves the recipe's environment.")],
    out: Annotated[Path, typer.Option(help="The model folder to write; it is replaced.")],
    plan: Annotated[
        str | None, typer.Option(help=f"What to teach: {', '.join(PLANS)}. The environment's own if not given.")
    ] = None,
    first_lesson: Annotated[
        Path | None,
        typer.Option(help="Keep what the first lesson made in this folder; where it is there, take it from there."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seeds the experts, their slips, the weights and the batches.")] = 0,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Expert episodes of the first lesson; the second's go along.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the first lesson.")] = None,
    doubt: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.9, help="Label smoothing of the second lesson: how unsure the policy stays."),
    ] = None,
    haste: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="WebShop: how often the expert of the second lesson takes anything."),
    ] = None,
    min_success: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Held-out success below which nothing is written.")
    ] = None,
    evaluation_episodes: Annotated[int | None, typer.Option(min=1, help="Held-out episodes to judge by.")] = None,
) -> None:
    """Make a small policy that wins now and then, by imitating an expert.

    What is not given is as it was for the policies that the demos start from.
    """
    loaded = load_recipe(recipe)
    changes = PlanChanges(episodes, epochs, doubt, haste, min_success, evaluation_episodes, seed)
    settings = changed(_plan(plan, loaded.environments[0].name), changes)
    report = warm_start(loaded, env_url, out, settings, first_lesson)
    scores, knowledge = report.scores, report.knowledge
    print(
        f"{out}: {scores.success:.1%} of {settings.evaluation_episodes} held-out episodes won in "
        f"{scores.mean_steps:.1f} steps, reward {scores.reward:.3f} ({scores.invalid:.1%} invalid); after the first "
        f"lesson {knowledge.success:.1%} in {knowledge.mean_steps:.1f}, {knowledge.reward:.3f} "
        f"({knowledge.invalid:.1%}); {report.seconds:.0f} s"
    )


def _plan(name: str | None, environment: str) -> WarmstartSettings:
    """The plan of that name, or the environment's own. Raises `WarmstartError` where it is for another one."""
    plan = PLANS.get(name or environment)
    if plan is None or plan.environment != environment:
        fitting = ", ".join(known for known, one in PLANS.items() if one.environment == environment)
        remedy = f"take {fitting}" if fitting else "there is none for it"
        raise WarmstartError(f"--plan {name or environment}: not a plan for {environment}; {remedy}")
    return plan


if __name__ == "__main__":
    try:
        typer.run(main)
    except WarmstartError as error:
        raise SystemExit(f"error: {error}") from None
