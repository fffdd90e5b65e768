"""vLLM's own parallelism under the policy server: a model shared by two processes, and two copies of it."""

import asyncio
from pathlib import Path

import pytest

from services.policy_server.parity import MAX_LIMIT, MEAN_LIMIT, differences, random_prompts, sample
from shared.schemas.policy import SamplingSettings
from tests.policy_processes import (
    VOCABULARY,
    changed,
    start_policy_server,
    tiny_model,
    wait_until_gone,
    write_tiny_model,
)

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "flags",
    [["--tensor-parallel-size", "2"], ['--vllm-args=["--data-parallel-size=2"]']],
    ids=["tensor-parallel", "data-parallel"],
)
def test_every_part_of_a_parallel_engine_samples_from_pushed_weights(tmp_path: Path, flags: list[str]) -> None:
    model = write_tiny_model(tmp_path / "tiny", tied=True)
    prompts, sampling = random_prompts(VOCABULARY, 24, 0), SamplingSettings(max_tokens=8)
    with start_policy_server(model, *flags) as server:
        for version, served in enumerate((tiny_model(0, tied=True), changed(tiny_model(0, tied=True), 1))):
            if version:
                served.save_pretrained(tmp_path / "pushed")
                server.push(tmp_path / "pushed", version)
            answers = asyncio.run(sample(server.url, prompts, sampling))
            assert {token for answer in answers for token in answer.policy_versions} == {version}
            found = differences(served, prompts, answers, sampling)
            assert sum(found) / len(found) <= MEAN_LIMIT
            assert max(found) <= MAX_LIMIT
        family = server.family()
        assert len(family) > 2
        server.stop()
        wait_until_gone(family)
