"""The shortened forward pass gives what the whole decoder gives, gradients included."""

from collections.abc import Iterator

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from services.trainer.forward import hidden_at

SIZE = {
    "vocab_size": 90,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost these tiny models more than they bring, and far more on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def model_of(kind: str) -> PreTrainedModel:
    torch.manual_seed(0)
    if kind == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**SIZE, num_key_value_heads=2)).eval().double()
    heads = {"llama": 4, "llama, shared keys": 2}[kind]
    return LlamaForCausalLM(LlamaConfig(**SIZE, num_key_value_heads=heads)).eval().double()


@pytest.mark.parametrize("kind", ["llama", "llama, shared keys", "qwen2"])
def test_hidden_states_and_gradients_are_those_of_the_whole_decoder(kind: str) -> None:
    model = model_of(kind)
    ids = torch.randint(0, 90, (3, 12))
    positions = torch.tensor([[5, 6, 7], [10, 11, 0], [0, 0, 0]])
    weights = torch.randn(3, 3, 64, dtype=torch.float64)

    whole = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[torch.arange(3).unsqueeze(1), positions]
    torch.autograd.backward((whole * weights).sum())
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    found = hidden_at(model, ids, positions)
    torch.autograd.backward((found * weights).sum())

    assert torch.allclose(found, whole, atol=1e-6)
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        assert gradient is not None
        assert torch.allclose(gradient, expected[name], rtol=1e-6, atol=1e-5), name


def test_what_stands_behind_a_position_does_not_matter() -> None:
    model = model_of("llama")
    ids = torch.randint(3, 90, (1, 12))
    padded = ids.clone()
    padded[0, 8:] = 0
    positions = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        assert torch.allclose(hidden_at(model, ids, positions), hidden_at(model, padded, positions), atol=1e-6)


def test_gradient_checkpointing_takes_the_general_way_and_gives_the_same() -> None:
    plain, saving = model_of("llama"), model_of("llama")
    saving.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    saving.train()
    ids, positions = torch.randint(0, 90, (2, 9)), torch.tensor([[6, 7], [3, 8]])
    for model in (plain, saving):
        torch.autograd.backward(hidden_at(model, ids, positions).square().sum())
    for one, other in zip(plain.parameters(), saving.parameters(), strict=True):
        if one.grad is not None and other.grad is not None:
            assert torch.allclose(one.grad, other.grad, atol=1e-4)
