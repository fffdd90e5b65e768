"""The base of every part of a recipe."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of a recipe: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
