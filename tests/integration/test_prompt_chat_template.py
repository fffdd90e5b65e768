"""Chat prompts rendered here are those that transformers renders."""

from pathlib import Path

import pytest

from shared.prompting import PolicyTokenizer
from tests.tokenizers import write_tokenizer

# Whitespace between blocks, loop controls, special tokens and a call: what templates of published models use.
TEMPLATE = """
{%- if messages[0].role != 'system' %}
    {{- bos_token + ' system act ' + eos_token }}
{%- endif %}
{% for message in messages %}
    {% if message.role == 'tool' %}{% continue %}{% endif %}
  {% if message.content is not string %}
    {{ raise_exception('text only') }}
  {% endif %}
{{ bos_token }} {{ message.role }} {{ message.content | trim }} {{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}
{{ bos_token }} assistant
{% endif %}
"""


def test_a_chat_prompt_has_the_tokens_that_transformers_gives_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: nothing to compare with")
    folder = write_tokenizer(tmp_path, "system user assistant act look at the desk", TEMPLATE)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    message = " look at\n the desk  "
    expected = theirs.apply_chat_template(
        [{"role": "user", "content": message}], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    assert PolicyTokenizer(folder).encode_chat(message) == list(expected)
