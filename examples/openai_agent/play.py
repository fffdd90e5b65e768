"""An agent over the OpenAI API that plays an environment over the REST API: any model, any endpoint, no framework.

python -m services.env_server --port 8001 &
export OPENAI_API_KEY=…                       # and OPENAI_BASE_URL, for another endpoint than OpenAI's
python examples/openai_agent/play.py --model gpt-5-mini --episodes 3
"""

import argparse
from dataclasses import dataclass

import httpx
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

SYSTEM = """You play a text game. Answer with your next action alone, on one line, in the words of the actions on offer.
An action with a <placeholder> takes words of your own in its place."""


@dataclass(frozen=True)
class Played:
    """What came of an episode."""

    task_id: str
    won: bool
    steps: int
    reward: float


class Agent:
    """Chats about one episode: the model sees everything that was said so far."""

    def __init__(self, client: OpenAI, model: str, seed: int) -> None:
        """``seed`` goes to the endpoint, which may heed it."""
        self._client, self._model, self._seed = client, model, seed
        self._said: list[ChatCompletionMessageParam] = [{"role": "system", "content": SYSTEM}]

    def act(self, observation: str, actions: list[str]) -> str:
        """The model's action: the first line of its answer with something on it."""
        self._said.append({"role": "user", "content": f"{observation}\n\nActions: {', '.join(actions)}"})
        answer = self._client.chat.completions.create(model=self._model, messages=self._said, seed=self._seed)
        text = answer.choices[0].message.content or ""
        self._said.append({"role": "assistant", "content": text})
        return next((line.strip() for line in text.splitlines() if line.strip()), actions[0])


def play(server: httpx.Client, agent: Agent, environment: str, split: str, seed: int, max_steps: int) -> Played:
    """Open the task that ``seed`` draws, and step it to its end."""
    request = {"environment": environment, "split": split, "seed": seed, "max_steps": max_steps}
    now = server.post("/v1/sessions", json=request).raise_for_status().json()["sessions"][0]
    print(f"== {now['task_id']}\n{now['observation']}")
    reward, over = 0.0, False
    while not over:
        action = agent.act(now["observation"], now["admissible_actions"])
        step = {"action": action, "step_index": now["step_index"]}
        now = server.post(f"/v1/sessions/{now['session_id']}/step", json=step).raise_for_status().json()
        print(f"> {action}\n{now['observation']}")
        reward += now["reward"]
        over = now["terminated"] or now["truncated"]
    server.delete(f"/v1/sessions/{now['session_id']}").raise_for_status()
    return Played(now["task_id"], bool(now["info"]["won"]), now["step_index"], reward)


def main() -> None:
    """Play some episodes and say how they went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--server", default="http://127.0.0.1:8001", help="the env server")
    parser.add_argument("--environment", default="alfworld")
    parser.add_argument("--split", default="valid_unseen")
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--max-steps", type=int, default=30)
    arguments = parser.parse_args()
    with httpx.Client(base_url=arguments.server, timeout=60) as server, OpenAI() as client:
        played = [
            play(
                server,
                Agent(client, arguments.model, seed),
                arguments.environment,
                arguments.split,
                seed,
                arguments.max_steps,
            )
            for seed in range(arguments.episodes)
        ]
    for one in played:
        print(f"{one.task_id}: {'won' if one.won else 'lost'} in {one.steps} steps, reward {one.reward:g}")
    print(f"won {sum(one.won for one in played)} of {len(played)}")


if __name__ == "__main__":
    main()
