"""The policy server against Hugging Face on the same weights: before, during and after pushes."""

import asyncio
import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from services.policy_server.parity import (
    MAX_LIMIT,
    MEAN_LIMIT,
    differences,
    random_prompts,
    reference_logprobs,
    sample,
)
from shared.schemas.policy import (
    FinishReason,
    GenerateRequest,
    GenerateResult,
    SamplingSettings,
    ScoreRequest,
    ScoreResult,
    WeightStream,
)
from shared.weights_digest import digest_of_folder
from tests.policy_processes import VOCABULARY, PolicyServer, WeightPushTo, changed, tiny_model

PLAIN = SamplingSettings(max_tokens=16)


def pushed(server: PolicyServer, folder: Path, seed: int) -> LlamaForCausalLM:
    """New weights, different for every seed, as the server's next version."""
    model = changed(tiny_model(0, tied=True), seed)
    model.save_pretrained(folder)
    server.push(folder, server.weights().version + 1)
    return model


def found_differences(
    server: PolicyServer, model: LlamaForCausalLM, sampling: SamplingSettings, seed: int = 0
) -> tuple[float, float]:
    """Mean and largest difference of the sampled tokens' log-probs from Hugging Face's, nats."""
    prompts = random_prompts(VOCABULARY, 12, seed)
    answers = asyncio.run(sample(server.url, prompts, sampling))
    found = differences(model, prompts, answers, sampling)
    assert len(found) > 60
    return sum(found) / len(found), max(found)


def post(server: PolicyServer, path: str, body: object) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=60, trust_env=False)


def generate(server: PolicyServer, prompt: list[int], sampling: SamplingSettings) -> GenerateResult:
    body = GenerateRequest(prompt_token_ids=prompt, sampling=sampling)
    answer = post(server, "/v1/generate", body.model_dump())
    assert answer.status_code == 200, answer.text
    return GenerateResult.model_validate_json(answer.content)


def score(server: PolicyServer, prompt: list[int], tokens: list[int]) -> ScoreResult:
    body = ScoreRequest(prompt_token_ids=prompt, token_ids=tokens)
    answer = post(server, "/v1/score", body.model_dump())
    assert answer.status_code == 200, answer.text
    return ScoreResult.model_validate_json(answer.content)


def test_logprobs_agree_with_hugging_face_before_and_after_pushes(policy_server: PolicyServer, tmp_path: Path) -> None:
    before = pushed(policy_server, tmp_path / "a", 1)
    mean, worst = found_differences(policy_server, before, PLAIN)
    assert mean <= MEAN_LIMIT
    assert worst <= MAX_LIMIT
    after = pushed(policy_server, tmp_path / "b", 2)
    mean, worst = found_differences(policy_server, after, PLAIN)
    assert mean <= MEAN_LIMIT
    assert worst <= MAX_LIMIT
    # The models differ enough for this check to see the difference.
    assert found_differences(policy_server, before, PLAIN)[0] > 0.05


def test_a_tied_output_layer_follows_a_push_of_the_embedding_alone(policy_server: PolicyServer, tmp_path: Path) -> None:
    """A reload on a CPU left the packed copy of a tied output layer as it was: only the embedding shows that alone."""
    model = pushed(policy_server, tmp_path / "a", 3)
    with torch.no_grad():
        model.model.embed_tokens.weight.add_(torch.randn_like(model.model.embed_tokens.weight) * 0.1)
    model.save_pretrained(tmp_path / "b")
    assert "lm_head.weight" not in load_file(tmp_path / "b" / "model.safetensors")
    policy_server.push(tmp_path / "b", policy_server.weights().version + 1)
    mean, worst = found_differences(policy_server, model, PLAIN)
    assert mean <= MEAN_LIMIT
    assert worst <= MAX_LIMIT


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingSettings(max_tokens=16, temperature=0.6),
        SamplingSettings(max_tokens=16, temperature=1.7, top_k=7),
        SamplingSettings(max_tokens=16, temperature=0.9, top_p=0.6),
        SamplingSettings(max_tokens=16, temperature=1.3, top_k=20, top_p=0.8),
    ],
    ids=["temperature", "top_k", "top_p", "both"],
)
def test_logprobs_are_those_of_the_distribution_that_was_sampled_from(
    policy_server: PolicyServer, tmp_path: Path, sampling: SamplingSettings
) -> None:
    model = pushed(policy_server, tmp_path, 4)
    mean, worst = found_differences(policy_server, model, sampling)
    assert mean <= MEAN_LIMIT
    assert worst <= MAX_LIMIT
    # What /v1/completions of a plain vLLM reports, the raw log-probs, would be caught.
    prompt = random_prompts(VOCABULARY, 1, 5)[0]
    answer = generate(policy_server, prompt, sampling)
    raw = reference_logprobs(model, prompt, answer.token_ids, PLAIN)
    assert max(abs(ours - other) for ours, other in zip(answer.logprobs, raw, strict=True)) > 0.01


def test_greedy_sampling_takes_the_likeliest_token_each_time(policy_server: PolicyServer, tmp_path: Path) -> None:
    model = pushed(policy_server, tmp_path, 5)
    prompt = random_prompts(VOCABULARY, 1, 6)[0]
    answer = generate(policy_server, prompt, SamplingSettings(max_tokens=8, temperature=0.0))
    with torch.no_grad():
        likeliest = model(torch.tensor([prompt + answer.token_ids])).logits[0].argmax(-1).tolist()
    assert answer.token_ids == likeliest[len(prompt) - 1 : -1]


def test_scores_of_given_tokens_agree_with_hugging_face(policy_server: PolicyServer, tmp_path: Path) -> None:
    model = pushed(policy_server, tmp_path, 6)
    prompt, tokens = random_prompts(VOCABULARY, 2, 7)
    result = score(policy_server, prompt, tokens)
    expected = reference_logprobs(model, prompt, tokens, PLAIN)
    assert result.logprobs == pytest.approx(expected, abs=MAX_LIMIT)
    assert result.policy_version == policy_server.weights().version


def test_a_stop_token_ends_an_answer_and_is_part_of_it(policy_server: PolicyServer, tmp_path: Path) -> None:
    pushed(policy_server, tmp_path, 7)
    everything = list(range(VOCABULARY))
    answer = generate(policy_server, [5, 6, 7], SamplingSettings(max_tokens=8, stop_token_ids=everything))
    assert len(answer.token_ids) == len(answer.logprobs) == len(answer.policy_versions) == 1
    assert answer.finish_reason is FinishReason.STOP


def test_the_same_seed_gives_the_same_answer(policy_server: PolicyServer, tmp_path: Path) -> None:
    pushed(policy_server, tmp_path, 8)
    sampling = SamplingSettings(max_tokens=12, seed=11)
    first, again = (generate(policy_server, [8, 9, 10], sampling) for _ in range(2))
    other = generate(policy_server, [8, 9, 10], SamplingSettings(max_tokens=12, seed=12))
    assert first.token_ids == again.token_ids != other.token_ids


def test_requests_in_flight_survive_pushes_and_name_the_version_of_every_token(
    policy_server: PolicyServer, tmp_path: Path
) -> None:
    models = {policy_server.weights().version + 1: pushed(policy_server, tmp_path / "0", 20)}
    prompts = random_prompts(VOCABULARY, 24, 8)
    sampling = SamplingSettings(max_tokens=300, temperature=1.0)

    async def push_while_generating() -> list[GenerateResult]:
        asked = asyncio.create_task(sample(policy_server.url, prompts, sampling))
        for turn in range(1, 4):
            await asyncio.sleep(0.4)
            version = max(models) + 1
            models[version] = await asyncio.to_thread(pushed, policy_server, tmp_path / str(turn), 20 + turn)
        return await asked

    answers = asyncio.run(push_while_generating())
    assert all(answer.finish_reason in (FinishReason.STOP, FinishReason.LENGTH) for answer in answers)
    assert max(len(set(answer.policy_versions)) for answer in answers) > 1, "no answer spans two versions"
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer.policy_versions == sorted(answer.policy_versions)
        assert len(answer.policy_versions) == len(answer.token_ids) == len(answer.logprobs)
        for version in set(answer.policy_versions):
            # After a push the kept tokens are read anew, so each token's context is under its own version.
            expected = reference_logprobs(models[version], prompt, answer.token_ids, sampling)
            for reported, other, of in zip(answer.logprobs, expected, answer.policy_versions, strict=True):
                assert of != version or abs(reported - other) <= MAX_LIMIT


def test_many_pushes_at_once_are_applied_one_after_another(policy_server: PolicyServer, tmp_path: Path) -> None:
    start = policy_server.weights().version
    folders = {start + turn: tmp_path / str(turn) for turn in range(1, 5)}
    for version, folder in folders.items():
        changed(tiny_model(0, tied=True), version).save_pretrained(folder)

    async def push_all() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=policy_server.url, timeout=60, trust_env=False) as client:
            bodies = [WeightPushTo(folder).push(version).model_dump() for version, folder in folders.items()]
            return list(await asyncio.gather(*(client.post("/v1/weights", json=body) for body in bodies)))

    assert [answer.status_code for answer in asyncio.run(push_all())] == [200] * 4
    state = policy_server.weights()
    assert sorted(entry.version for entry in state.history[-4:]) == sorted(folders)
    assert state.initial_digest == digest_of_folder(policy_server.model)
    model = LlamaForCausalLM.from_pretrained(folders[state.version]).eval()
    assert found_differences(policy_server, model, PLAIN)[1] <= MAX_LIMIT


def test_a_push_of_a_tiny_model_pauses_generation_for_less_than_a_tenth_of_a_second(
    policy_server: PolicyServer, tmp_path: Path
) -> None:
    for turn in range(5):
        pushed(policy_server, tmp_path / str(turn), 30 + turn)
    assert min(entry.seconds for entry in policy_server.weights().history[-5:]) <= 0.1


def test_the_same_push_again_changes_nothing_and_another_expected_version_is_refused(
    policy_server: PolicyServer, tmp_path: Path
) -> None:
    pushed(policy_server, tmp_path, 40)
    state = policy_server.weights()
    again = policy_server.push(tmp_path, state.version, expected_version=state.version - 1)
    assert again.history == state.history
    stale = WeightPushTo(tmp_path).push(state.version + 1, expected_version=state.version - 1)
    answer = policy_server.try_push(stale)
    assert answer.status_code == 409
    assert answer.json()["type"] == "/problems/version-conflict"
    assert answer.json()["version"] == state.version
    assert policy_server.weights() == state


def _with_wrong_shape(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(7)
    save_file(tensors, folder / "model.safetensors")


def _without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.0.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")


def _with_an_unknown_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.layers.9.mlp.up_proj.weight": torch.ones(3)}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (_with_wrong_shape, "model.norm.weight is [7] and must be [64]"),
        (_without_a_tensor, "missing model.layers.0.mlp.up_proj.weight"),
        (_with_an_unknown_tensor, "unknown model.layers.9.mlp.up_proj.weight"),
    ],
)
def test_weights_that_do_not_fit_leave_the_old_ones_serving(
    policy_server: PolicyServer, tmp_path: Path, spoil: object, named: str
) -> None:
    pushed(policy_server, tmp_path / "good", 50)
    state = policy_server.weights()
    before = score(policy_server, [5, 6, 7], [8, 9, 10])
    changed(tiny_model(0, tied=True), 51).save_pretrained(tmp_path / "bad")
    spoil(tmp_path / "bad")  # type: ignore[operator]
    answer = policy_server.try_push(WeightPushTo(tmp_path / "bad").push(state.version + 1))
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert named in answer.json()["detail"]
    assert policy_server.weights() == state
    assert score(policy_server, [5, 6, 7], [8, 9, 10]) == before


def test_a_wrong_digest_a_cut_file_and_a_missing_folder_leave_the_old_weights_serving(
    policy_server: PolicyServer, tmp_path: Path
) -> None:
    pushed(policy_server, tmp_path / "good", 52)
    state = policy_server.weights()
    before = score(policy_server, [5, 6, 7], [8, 9, 10])
    changed(tiny_model(0, tied=True), 53).save_pretrained(tmp_path / "bad")
    push = WeightPushTo(tmp_path / "bad").push(state.version + 1)
    wrong = policy_server.try_push(push.model_copy(update={"digest": "0" * 64}))
    file = tmp_path / "bad" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    cut = policy_server.try_push(push)
    file.unlink()
    empty = policy_server.try_push(push)
    (tmp_path / "bad").rename(tmp_path / "elsewhere")
    missing = policy_server.try_push(push)
    types = [answer.json()["type"] for answer in (wrong, cut, empty, missing)]
    assert types == [
        f"/problems/{kind}"
        for kind in ("digest-mismatch", "weights-unreadable", "weights-not-found", "weights-not-found")
    ]
    assert {answer.status_code for answer in (wrong, cut, empty, missing)} == {422}
    assert policy_server.weights() == state
    assert score(policy_server, [5, 6, 7], [8, 9, 10]) == before


@contextmanager
def files_over_http(folder: Path) -> Iterator[str]:
    """A web server over a folder; its URL."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


def test_weights_can_be_fetched_over_http(policy_server: PolicyServer, tmp_path: Path) -> None:
    model = changed(tiny_model(0, tied=True), 60)
    model.save_pretrained(tmp_path)
    version = policy_server.weights().version + 1
    with files_over_http(tmp_path) as url:
        push = WeightPushTo(tmp_path).push(version, source=WeightStream(url=f"{url}/model.safetensors"))
        assert policy_server.try_push(push).status_code == 200
        absent = push.model_copy(update={"version": version + 1, "source": WeightStream(url=f"{url}/nothing")})
        refused = policy_server.try_push(absent)
    unreachable = policy_server.try_push(push.model_copy(update={"version": version + 1}))
    assert [answer.json()["type"] for answer in (refused, unreachable)] == ["/problems/weights-fetch-failed"] * 2
    assert policy_server.weights().version == version
    assert policy_server.weights().history[-1].transport == "http"
    assert found_differences(policy_server, model, PLAIN)[1] <= MAX_LIMIT


@pytest.mark.parametrize(
    "path",
    ["/collective_rpc", "/pause", "/resume", "/update_weights", "/start_weight_update", "/init_weight_transfer_engine",
     "/sleep", "/wake_up", "/reset_prefix_cache", "/server_info", "/v1/load_lora_adapter", "/start_profile",
     "/scale_elastic_ep", "/invocations"],
)  # fmt: skip
def test_routes_that_change_the_engine_are_not_reachable(policy_server: PolicyServer, path: str) -> None:
    for prefix in ("", "//"):
        answer = post(policy_server, prefix + path, {})
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"prompt_token_ids": [], "sampling": {"max_tokens": 4}}, "prompt_token_ids"),
        ({"prompt_token_ids": [VOCABULARY], "sampling": {"max_tokens": 4}}, str(VOCABULARY)),
        ({"prompt_token_ids": [-1], "sampling": {"max_tokens": 4}}, "-1"),
        ({"prompt_token_ids": ["five"], "sampling": {"max_tokens": 4}}, "prompt_token_ids"),
        ({"prompt_token_ids": [5] * 600, "sampling": {"max_tokens": 4}}, "512"),
        ({"prompt_token_ids": [5], "sampling": {"max_tokens": 0}}, "max_tokens"),
        ({"prompt_token_ids": [5], "sampling": {"max_tokens": 4, "temperature": -1}}, "temperature"),
        ({"prompt_token_ids": [5], "sampling": {"max_tokens": 4, "top_p": 0}}, "top_p"),
        ({"prompt_token_ids": [5], "sampling": {"max_tokens": 4, "stop_token_ids": [VOCABULARY]}}, "stop_token_ids"),
        ({"prompt_token_ids": [5], "sampling": {"max_tokens": 4, "temprature": 1}}, "temprature"),
    ],
)
def test_a_bad_request_is_a_problem_that_names_what_is_wrong(
    policy_server: PolicyServer, body: object, named: str
) -> None:
    answer = post(policy_server, "/v1/generate", body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert named in answer.json()["detail"]


def test_the_openai_routes_and_the_metrics_stand_beside_ours(policy_server: PolicyServer) -> None:
    name = httpx.get(f"{policy_server.url}/v1/models").json()["data"][0]["id"]
    asked = {"model": name, "prompt": [5, 6, 7], "max_tokens": 4, "logprobs": 0, "return_token_ids": True}
    answer = post(policy_server, "/v1/completions", asked).json()["choices"][0]
    scored = score(policy_server, [5, 6, 7], answer["token_ids"])
    assert answer["logprobs"]["token_logprobs"] == pytest.approx(scored.logprobs, abs=MAX_LIMIT)
    generate(policy_server, [5, 6, 7], SamplingSettings(max_tokens=2))
    metrics = httpx.get(f"{policy_server.url}/metrics").text
    assert "vllm:request_success_total" in metrics


def test_seeded_prompts_that_do_not_fit_one_step_are_answered(policy_server: PolicyServer, tmp_path: Path) -> None:
    """An engine on a CPU dies where a seeded prompt is split over steps."""
    model = pushed(policy_server, tmp_path, 8)
    prompts = [random_prompts(VOCABULARY, 1, number)[0] * 40 for number in range(40)]
    prompts = [prompt[:400] for prompt in prompts]
    assert sum(map(len, prompts)) > 2 * 4096
    sampling = SamplingSettings(max_tokens=4, seed=3)
    answers = asyncio.run(sample(policy_server.url, prompts, sampling))
    assert max(differences(model, prompts, answers, sampling)) <= MAX_LIMIT
