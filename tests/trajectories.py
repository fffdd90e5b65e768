"""Made-up trajectories for tests."""

import numpy as np

from shared.trajectory import Episode, EpisodeEnd, Group, Step


def make_group(
    step: int = 0, index: int = 0, episodes: int = 2, steps: int = 3, prompt: int = 20, action: int = 5, seed: int = 0
) -> Group:
    """A group whose content is decided by the arguments alone; prompts of an episode grow by the step before."""
    random = np.random.default_rng([seed, step, index])
    return Group(
        step=step,
        index=index,
        environment="maze",
        task_id=f"maze-{seed}-{index}",
        task_type="walk",
        episodes=tuple(_make_episode(random, steps, prompt, action) for _ in range(episodes)),
        generation_s=1.5,
    )


def _make_episode(random: np.random.Generator, steps: int, prompt: int, action: int) -> Episode:
    shown = random.integers(0, 1000, prompt)
    made = []
    for turn in range(steps):
        tokens = random.integers(0, 1000, action).astype(np.int32)
        made.append(
            Step(
                observation=f"You are in room {turn}, which has a door é.",
                action=f"go to door {turn}",
                state_key=f"room-{turn}",
                prompt_token_ids=shown.astype(np.int32),
                token_ids=tokens,
                logprobs=-random.random(action).astype(np.float32),
                policy_versions=np.full(action, 3, dtype=np.int32),
                reward=float(turn == steps - 1),
                valid_action=turn % 2 == 0,
            )
        )
        shown = np.concatenate([shown[action:], tokens])
    return Episode(tuple(made), EpisodeEnd.TERMINATED, f"room-{steps}", True, 1.0, optimal_steps=steps)


def assert_same_group(one: Group, other: Group) -> None:
    """Equal in every field, and the arrays in dtype too."""
    for name in ("step", "index", "environment", "task_id", "task_type", "generation_s"):
        assert getattr(one, name) == getattr(other, name)
    assert len(one.episodes) == len(other.episodes)
    for mine, theirs in zip(one.episodes, other.episodes, strict=True):
        for name in ("end", "final_state_key", "won", "score", "optimal_steps"):
            assert getattr(mine, name) == getattr(theirs, name)
        assert len(mine.steps) == len(theirs.steps)
        for a, b in zip(mine.steps, theirs.steps, strict=True):
            assert (a.observation, a.action, a.state_key, a.reward, a.valid_action) == (
                b.observation,
                b.action,
                b.state_key,
                b.reward,
                b.valid_action,
            )
            for name in ("prompt_token_ids", "token_ids", "logprobs", "policy_versions"):
                left, right = getattr(a, name), getattr(b, name)
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right)
