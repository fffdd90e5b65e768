"""A small policy's folder, as vLLM and Transformers load it."""

from pathlib import Path

from transformers import GenerationConfig, LlamaForCausalLM

from services.trainer.small_policy.reading import Reading
from services.trainer.small_policy.readings import alfworld
from services.trainer.small_policy.tokenizer import END_ID, PAD_ID, save_tokenizer


def save_policy(model: LlamaForCausalLM, folder: Path, reading: Reading = alfworld.READING) -> None:
    """Write config, weights (``model.safetensors``, float32) and tokenizer into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    GenerationConfig(eos_token_id=END_ID, pad_token_id=PAD_ID).save_pretrained(folder)
    save_tokenizer(folder, model.config.max_position_embeddings, reading)
