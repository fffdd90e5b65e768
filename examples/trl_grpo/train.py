"""TRL's `GRPOTrainer` plays ALFWorld or WebShop on the env server, through OpenEnv's own client.

python -m services.env_server --port 8001 &
pip install trl openenv                       # in the trainer's environment; gagpo is not needed there
python examples/trl_grpo/train.py --model Qwen/Qwen3-1.7B --environment webshop
"""

import argparse
from functools import partial

from openenv.core import GenericEnvClient

SPLITS = {"alfworld": "train", "webshop": "synthetic_train"}
ASKED = (
    "Do the task with the tool act, one command at a time. A <placeholder> takes words of your own in its place.\n\n"
)


class TextGame:
    """An episode for TRL: its other public methods than `reset` and `get_reward` are the model's tools."""

    def __init__(self, server: str, environment: str, max_steps: int) -> None:
        """Connect. TRL makes as many as it plays episodes at once, and resets each of them for its next one."""
        self._client = GenericEnvClient(base_url=f"{server}/openenv/{environment}").sync()
        self._client.connect()
        self._split = SPLITS[environment]
        self._max_steps = max_steps
        self._over = False
        self._reward = 0.0

    def reset(self, seed: int, **columns: object) -> str:
        """Start the task that the row's ``seed`` draws; what this returns ends the prompt."""
        self._reward, self._over = 0.0, False
        return self._told(self._client.reset(split=self._split, seed=seed, max_steps=self._max_steps))

    def act(self, command: str) -> str:
        """
        Do one thing.

        Args:
            command: One of the possible commands.

        Returns:
            What can be seen then, and the commands that are possible next.
        """
        if self._over:
            raise ValueError("The episode is over.")  # the model is told
        result = self._client.step({"action": command})
        self._reward += result.reward
        self._over = result.done
        return self._told(result)

    def get_reward(self) -> float:
        """What the episode has brought."""
        return self._reward

    def _told(self, result) -> str:
        seen = result.observation
        if result.done:
            return f"{seen['observation']}\n\nThe episode is over."
        return f"{seen['observation']}\n\nPossible commands: {', '.join(seen['admissible_actions'])}"


def main() -> None:
    """Train, with a task per row: all generations of a row play the same one."""
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen/Qwen3-1.7B", help="its chat template must know tools")
    parser.add_argument("--server", default="http://127.0.0.1:8001")
    parser.add_argument("--environment", choices=SPLITS, default="alfworld")
    parser.add_argument("--steps", type=int, default=100, help="training steps")
    parser.add_argument("--generations", type=int, default=8, help="episodes of each task, and of each step")
    parser.add_argument("--max-steps", type=int, default=30, help="steps of an episode")
    parser.add_argument("--max-tokens", type=int, default=8192, help="of an episode, with what the environment says")
    parser.add_argument("--out", default="runs/trl-grpo", help="folder for the trained model")
    given = parser.parse_args()

    rows = [{"prompt": [{"role": "user", "content": ASKED}], "seed": seed} for seed in range(given.steps)]
    trainer = GRPOTrainer(
        model=given.model,
        train_dataset=Dataset.from_list(rows),
        args=GRPOConfig(
            output_dir=given.out,
            max_steps=given.steps,
            per_device_train_batch_size=given.generations,
            num_generations=given.generations,
            max_completion_length=given.max_tokens,
            max_tool_calling_iterations=given.max_steps,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=not torch.cuda.is_available(),
            bf16=torch.cuda.is_available(),
        ),
        environment_factory=partial(TextGame, given.server, given.environment, given.max_steps),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
