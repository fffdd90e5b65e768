"""Warm-up of the small policy: imitate a searching, slipping expert until it wins now and then.

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
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from tqdm import tqdm
from transformers import LlamaForCausalLM

from services.trainer.small_policy.checkpoint import save_policy
from services.trainer.small_policy.model import Size, build_model
from services.trainer.small_policy.sampling import sample_actions
from services.trainer.warmstart_episodes import EnvServer, NoisyExpert, Outcome, play
from services.trainer.warmstart_fit import batches, fit, rows
from services.trainer.warmstart_report import WarmstartReport, WarmstartSettings, write_card
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import Recipe, load_recipe
from shared.schemas.environment import Observation

DEFAULTS = WarmstartSettings()


class WarmstartError(Exception):
    """The policy is not fit to start from; the message has the figures and what to change."""


def warm_start(recipe: Recipe, env_url: str, out: Path, settings: WarmstartSettings) -> WarmstartReport:
    """Make a policy and put it into ``out``, which is replaced as a whole. Raises `WarmstartError`."""
    environment = recipe.environments[0]
    began = time.monotonic()
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        model = build_model(Size(), settings.seed)
        save_policy(model, draft)
        builder = PromptBuilder(recipe.prompt, PolicyTokenizer(draft))
        with EnvServer(env_url, environment) as server:
            expert, expert_success = _demonstrate(server, builder, environment.split, settings)
            losses = _imitate(model, expert, settings)
            outcomes = evaluate(server, builder, model, recipe, settings.evaluation_episodes)
        steps = sum(outcome.steps for outcome in outcomes)
        report = WarmstartReport(
            success=sum(outcome.won for outcome in outcomes) / len(outcomes),
            mean_steps=steps / len(outcomes),
            invalid=sum(outcome.invalid for outcome in outcomes) / steps,
            expert_success=expert_success,
            samples=sum(len(episode) for episode in expert.episodes()),
            loss=sum(losses[-100:]) / len(losses[-100:]),
            seconds=time.monotonic() - began,
        )
        if report.success < settings.min_success:
            raise WarmstartError(
                f"the policy wins {report.success:.1%} of {len(outcomes)} held-out episodes, less than --min-success "
                f"{settings.min_success:.0%}: nothing was written. Give more --episodes or --epochs, less --noise, or "
                f"easier tasks (loss {report.loss:.3f}, invalid actions {report.invalid:.1%})"
            )
        save_policy(model, draft)
        write_card(draft, recipe, settings, report, model.num_parameters())
        draft.chmod(0o755)  # temporary folders and safetensors files are made private
        for file in draft.iterdir():
            file.chmod(0o644)
        shutil.rmtree(out, ignore_errors=True)
        draft.rename(out)
        return report
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _demonstrate(
    server: EnvServer, builder: PromptBuilder, split: str, settings: WarmstartSettings
) -> tuple[NoisyExpert, float]:
    """The expert after its episodes, and the share of them that it won in spite of its slips."""
    expert = NoisyExpert(builder, settings.noise, settings.seed)
    known = server.tasks(split)
    tasks = [known[number % len(known)] for number in range(settings.episodes)]
    won = 0
    with tqdm(total=len(tasks), desc="expert episodes", unit="ep", file=sys.stderr) as bar:
        for outcome in play(server, builder, tasks, expert.options, expert):
            won += outcome.won
            bar.update()
    return expert, won / len(tasks)


def _imitate(model: LlamaForCausalLM, expert: NoisyExpert, settings: WarmstartSettings) -> list[float]:
    """Train the model in place. The loss of every batch."""
    found = rows(expert.episodes())
    losses: list[float] = []
    with tqdm(total=batches(len(found), settings.fit), desc="imitating", unit="batch", file=sys.stderr) as bar:

        def on_batch(loss: float) -> None:
            losses.append(loss)
            recent = losses[-100:]
            bar.set_postfix(loss=f"{sum(recent) / len(recent):.3f}", refresh=False)
            bar.update()

        fit(model, found, settings.fit, settings.seed, on_batch)
    return losses


def evaluate(
    server: EnvServer, builder: PromptBuilder, model: LlamaForCausalLM, recipe: Recipe, episodes: int
) -> list[Outcome]:
    """One episode on each of the first tasks of the held-out split, sampled as the recipe evaluates."""
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
    return outcomes


def main(
    recipe: Annotated[Path, typer.Option(help="The recipe to warm up for: its tasks, prompt and step limit.")],
    env_url: Annotated[str, typer.Option(help="An env server that serves the recipe's environment.")],
    out: Annotated[Path, typer.Option(help="The model folder to write; it is replaced.")],
    seed: Annotated[int, typer.Option(min=0, help="Seeds the experts, their slips, the weights and the batches.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Expert episodes to imitate.")] = DEFAULTS.episodes,
    noise: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the expert's steps that are any admissible action.")
    ] = DEFAULTS.noise,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the expert's steps.")] = DEFAULTS.fit.epochs,
    learning_rate: Annotated[float, typer.Option(help="Its peak.")] = DEFAULTS.fit.learning_rate,
    min_success: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Held-out success below which nothing is written.")
    ] = DEFAULTS.min_success,
    evaluation_episodes: Annotated[
        int, typer.Option(min=1, help="Held-out episodes to judge by.")
    ] = DEFAULTS.evaluation_episodes,
) -> None:
    """Make a small policy that wins now and then, by imitating an expert that searches and slips."""
    settings = WarmstartSettings(
        episodes,
        noise,
        min_success,
        evaluation_episodes,
        seed,
        replace(DEFAULTS.fit, epochs=epochs, learning_rate=learning_rate),
    )
    report = warm_start(load_recipe(recipe), env_url, out, settings)
    print(
        f"{out}: {report.success:.1%} of {evaluation_episodes} held-out episodes won, {report.mean_steps:.1f} steps on "
        f"average, {report.invalid:.1%} invalid actions, loss {report.loss:.3f}, {report.seconds:.0f} s"
    )


if __name__ == "__main__":
    try:
        typer.run(main)
    except WarmstartError as error:
        raise SystemExit(f"error: {error}") from None
