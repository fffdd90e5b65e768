"""Published models as Hugging Face folders."""

import json
from pathlib import Path

import pytest
import torch

from shared.prompting import PolicyTokenizer

pytest.importorskip("gguf", reason="gguf is not installed: there is nothing to convert with")

from services.trainer.pretrained import smollm2
from services.trainer.pretrained.bpe_tokenizer import save_tokenizer
from services.trainer.pretrained.folder import convert
from services.trainer.pretrained.gguf_model import ConversionError, GgufModel
from tests import gguf_files


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    return gguf_files.write_llama(tmp_path / "tiny.gguf", gguf_files.random_weights())


@pytest.fixture(scope="module")
def smollm2_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PolicyTokenizer:
    pytest.importorskip("gguf")
    folder = tmp_path_factory.mktemp("smollm2")
    save_tokenizer(GgufModel(_smollm2_file()), folder)
    return PolicyTokenizer(folder)


def _smollm2_file() -> Path:
    try:
        return smollm2.gguf_file()
    except ConversionError as error:
        pytest.skip(str(error))


def test_a_converted_model_has_the_weights_and_the_rotation_of_the_original(gguf_file: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    convert(gguf_file, tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    found = model.state_dict()
    for name, values in gguf_files.random_weights().items():
        assert torch.equal(found[name], torch.from_numpy(values)), name
    assert torch.equal(found["lm_head.weight"], found["model.embed_tokens.weight"])
    config = model.config
    assert config.rope_parameters["rope_theta"] == 100_000.0
    assert (config.rms_norm_eps, config.head_dim) == (1e-5, gguf_files.HEAD_DIM)
    assert (config.max_position_embeddings, config.vocab_size) == (64, len(gguf_files.TOKENS))


def test_bfloat16_halves_the_weights(gguf_file: Path, tmp_path: Path) -> None:
    full = convert(gguf_file, tmp_path / "full", "float32")
    half = convert(gguf_file, tmp_path / "half", "bfloat16")
    assert half.parameters == full.parameters == sum(values.size for values in gguf_files.random_weights().values())
    size = {name: (tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")}
    assert size["full"] - size["half"] == pytest.approx(2 * full.parameters, rel=0.05)
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16"


def test_the_folder_has_what_prompts_and_generation_need(gguf_file: Path, tmp_path: Path) -> None:
    convert(gguf_file, tmp_path / "model", extra={"LICENSE": b"free"})
    tokenizer = PolicyTokenizer(tmp_path / "model")
    assert tokenizer.stop_token_ids == [2]
    assert tokenizer.encode_chat("go")[0] == 1
    assert tokenizer.encode_chat("go")[-1] == 2
    assert (tmp_path / "model" / "LICENSE").read_bytes() == b"free"


def test_digits_and_runs_of_spaces_are_tokens_of_their_own(gguf_file: Path, tmp_path: Path) -> None:
    convert(gguf_file, tmp_path / "model")
    tokens = [gguf_files.TOKENS[id_] for id_ in PolicyTokenizer(tmp_path / "model").encode("go  12")]
    assert tokens == ["go", "ĠĠ", "1", "2"]


def test_a_folder_that_is_there_is_left_alone(gguf_file: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").touch()
    with pytest.raises(ConversionError, match="is there already; remove it first"):
        convert(gguf_file, tmp_path / "model")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["mine"]


def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path) -> None:
    weights = gguf_files.random_weights()
    weights["blk.0.something_new.weight"] = weights["model.norm.weight"]
    file = gguf_files.write_llama(tmp_path / "odd.gguf", weights)
    with pytest.raises(ConversionError, match=r"blk\.0\.something_new\.weight is none of a Llama's"):
        convert(file, tmp_path / "models" / "odd")
    assert list((tmp_path / "models").iterdir()) == []


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    file = gguf_files.write_llama(tmp_path / "other.gguf", {}, architecture="qwen2")
    with pytest.raises(ConversionError, match=r"general\.architecture = 'qwen2'"):
        convert(file, tmp_path / "model")


def test_a_tokenizer_that_splits_text_otherwise_is_refused(tmp_path: Path) -> None:
    file = gguf_files.write_llama(tmp_path / "other.gguf", gguf_files.random_weights(), splitting="llama-bpe")
    with pytest.raises(ConversionError, match="gpt2/llama-bpe"):
        convert(file, tmp_path / "model")


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no model" * 100)
    with pytest.raises(ConversionError, match="is not a readable GGUF file"):
        convert(tmp_path / "text.gguf", tmp_path / "model")


def test_smollm2_chat_is_chatml_with_its_own_system_message(smollm2_tokenizer: PolicyTokenizer) -> None:
    expected = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nlook<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = smollm2_tokenizer.encode_chat("look")
    assert ids == smollm2_tokenizer.encode(expected)
    assert (ids.count(1), ids.count(2)) == (3, 2)  # <|im_start|>, <|im_end|>: one token each
    assert smollm2_tokenizer.stop_token_ids == [2]


@pytest.mark.parametrize("text", ["go to cabinet 12,  then 34", "  two\n\n lines 7", "Zoë 世界 — ½"])
def test_smollm2_text_survives_its_tokens(smollm2_tokenizer: PolicyTokenizer, text: str) -> None:
    assert smollm2_tokenizer.decode(smollm2_tokenizer.encode(text)) == text


def test_smollm2_comes_with_its_licence() -> None:
    _smollm2_file()
    notices = smollm2.notices()
    assert b"Apache License" in notices["LICENSE"]
    assert b"license: apache-2.0" in notices["README.md"]
