"""Prompts and actions: from an environment's texts to the policy's token ids and back."""

from shared.prompting.action import EMPTY_ACTION, parse_action
from shared.prompting.builder import (
    EpisodePrompts,
    PromptBuilder,
    PromptText,
    PromptTooLongError,
    Scene,
    Turn,
    task_text,
)
from shared.prompting.template import ActionFormat, PromptFormat, TemplateError, load_template
from shared.prompting.tokenizer import PolicyTokenizer, TokenizerError

__all__ = [
    "EMPTY_ACTION",
    "ActionFormat",
    "EpisodePrompts",
    "PolicyTokenizer",
    "PromptBuilder",
    "PromptFormat",
    "PromptText",
    "PromptTooLongError",
    "Scene",
    "TemplateError",
    "TokenizerError",
    "Turn",
    "load_template",
    "parse_action",
    "task_text",
]
