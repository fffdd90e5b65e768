"""TRL trains on ALFWorld and WebShop through OpenEnv's client: the example, with a tiny random model."""

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from examples.trl_grpo.train import SPLITS
from tests.processes import REPOSITORY, start_env_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

GENERATIONS = 8


@pytest.mark.parametrize("environment", SPLITS)
def test_a_model_is_trained_on_the_episodes_that_it_plays_with_its_tool(environment: str, tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="TRL is not among the locked packages: pip install trl, to run this test")
    model, out = tmp_path / "model", tmp_path / "out"
    with start_env_server(GAGPO_ENV_SERVE=f'["{environment}"]', GAGPO_ENV_WORKERS="1") as server:
        before = write_model_that_wins_or_loses(model, plan(server.url, environment))
        command = [sys.executable, str(REPOSITORY / "examples" / "trl_grpo" / "train.py"), "--model", str(model)]
        command += ["--server", server.url, "--environment", environment, "--steps", "1", "--out", str(out)]
        command += ["--generations", str(GENERATIONS), "--max-tokens", "4000"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=840, check=False)
        assert done.returncode == 0, done.stderr
    assert logged(done.stdout, "tools/call_frequency") > 1
    won = logged(done.stdout, "rewards/TextGame/mean")
    assert won * GENERATIONS == pytest.approx(round(won * GENERATIONS), abs=0.01)
    assert 0 < won < 1
    after = Qwen3ForCausalLM.from_pretrained(out)
    assert not torch.equal(before.lm_head.weight, after.lm_head.weight)


def plan(server: str, environment: str) -> list[str]:
    """The expert's commands for the task of the first row."""
    task = {"environment": environment, "split": SPLITS[environment], "seed": 0, "options": {"expert": True}}
    now = httpx.post(f"{server}/v1/sessions", json=task, timeout=60).raise_for_status().json()["sessions"][0]
    url, commands = f"{server}/v1/sessions/{now['session_id']}/step", []
    while not now.get("terminated"):
        commands.append(now["info"]["expert_action"])
        step = {"action": commands[-1], "step_index": now["step_index"]}
        now = httpx.post(url, json=step, timeout=60).raise_for_status().json()
    return commands


def logged(output: str, figure: str) -> float:
    """A figure of the one training step."""
    (found,) = re.findall(rf"'{re.escape(figure)}': '?([-+.e0-9]+)", output)
    return float(found)


def write_model_that_wins_or_loses(folder: Path, commands: list[str]) -> Qwen3ForCausalLM:
    """A random model that knows three tokens: all the winning tool calls, one of no use, and the end of its turn."""
    from trl.chat_template_utils import qwen3_chat_template

    said = ["<|im_end|>", "".join(call(command) for command in commands), call("look around in vain")]
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "<|im_start|>": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    tokenizer.add_special_tokens(["<|im_start|>", said[0]])
    tokenizer.add_tokens(said[1:])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<unk>", eos_token=said[0], padding_side="left"
    )
    fast.chat_template = qwen3_chat_template
    fast.save_pretrained(folder)

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=2,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(1.0, 0.1)  # the state is much the same after any text
        model.lm_head.weight.fill_(-0.2)
        model.lm_head.weight[2:] = 0.2
    model.save_pretrained(folder)
    return model


def call(command: str) -> str:
    """As Qwen's models call a tool."""
    return f"<tool_call>\n{json.dumps({'name': 'act', 'arguments': {'command': command}})}\n</tool_call>"
