"""A model's tokenizer and chat template, read from its folder without transformers."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import jinja2
import msgspec
import orjson
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import JsonValue
from tokenizers import Tokenizer


class TokenizerError(ValueError):
    """A model folder whose tokenizer cannot be used."""


class _GenerationConfig(msgspec.Struct, frozen=True):
    eos_token_id: int | list[int] | None = None


class PolicyTokenizer:
    """Text to token ids and back, as the policy's own tokenizer has it."""

    def __init__(self, model: Path) -> None:
        """Read the tokenizer, and the chat template and end tokens where there are any. Raises `TokenizerError`."""
        file = model / "tokenizer.json"
        if not file.is_file():
            raise TokenizerError(
                f"model.path = {model}: there is no tokenizer.json; save the model's fast tokenizer there"
            )
        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        config = _read_object(model / "tokenizer_config.json")
        self._special = {
            name: token
            for name in ("bos_token", "eos_token", "unk_token", "pad_token")
            if (token := _token_text(config.get(name))) is not None
        }
        self._chat = _chat_template(model, config)
        self._model = model
        self.stop_token_ids = self._find_stop_tokens()
        """Ids that end a generation."""

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of a text; ``special`` adds what the tokenizer puts around one, such as a begin token."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=special).ids
        return ids

    def decode(self, token_ids: Sequence[int], *, special: bool = False) -> str:
        """The text of token ids; ``special`` leaves special tokens in."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=not special)
        return text

    def encode_chat(self, message: str) -> list[int]:
        """Token ids of a user's message in the model's chat template, up to where the answer begins."""
        if self._chat is None:
            raise TokenizerError(
                f"model.path = {self._model}: it has no chat template, which this prompt template needs; "
                "use an instruct model, or prompt.template = 'compact'"
            )
        text = self._chat.render(
            messages=[{"role": "user", "content": message}], add_generation_prompt=True, **self._special
        )
        return self.encode(text, special=False)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, added ones too."""
        return int(self._tokenizer.get_vocab_size())

    def _find_stop_tokens(self) -> list[int]:
        """What the generation config names, else the model's config, and the tokenizer's own end token."""
        stops: set[int] = set()
        for name in ("generation_config.json", "config.json"):
            config = msgspec.convert(_read_object(self._model / name), _GenerationConfig)
            if config.eos_token_id is not None:
                ids = config.eos_token_id
                stops.update(ids if isinstance(ids, list) else [ids])
                break
        own = self._tokenizer.token_to_id(self._special.get("eos_token", ""))
        return sorted(stops if own is None else stops | {own})


def _read_object(file: Path) -> dict[str, JsonValue]:
    if not file.is_file():
        return {}
    content: JsonValue = orjson.loads(file.read_bytes())
    if not isinstance(content, dict):
        raise TokenizerError(f"{file} has to hold a JSON object")
    return content


def _token_text(entry: JsonValue) -> str | None:
    """A special token stands there as a string, or as an object with its ``content``."""
    if isinstance(entry, dict):
        entry = entry.get("content")
    return entry if isinstance(entry, str) else None


def _chat_template(model: Path, config: dict[str, JsonValue]) -> jinja2.Template | None:
    file = model / "chat_template.jinja"
    source = file.read_text() if file.is_file() else config.get("chat_template")
    if isinstance(source, list):  # several, by name
        named = {entry["name"]: entry["template"] for entry in source if isinstance(entry, dict)}
        source = named.get("default")
    if not isinstance(source, str):
        return None
    # What such templates may count on: these two ways of trimming, break/continue, and two functions.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(source)


def _to_json(value: JsonValue) -> str:
    """Plain JSON: jinja's own filter escapes it for HTML."""
    return orjson.dumps(value).decode()


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
