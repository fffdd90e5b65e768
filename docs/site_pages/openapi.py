"""An OpenAPI document as a page: its operations by tag, then the messages that they take and give."""

from collections.abc import Iterator
from dataclasses import dataclass

from fastapi.openapi.models import (
    MediaType,
    OpenAPI,
    Operation,
    Parameter,
    PathItem,
    Reference,
    RequestBody,
    Response,
    Schema,
)

from site_pages.markdown import code, json_block, one_line, page, table
from site_pages.schemas import Definitions, default_text, definitions_of, fields_table, type_text

_METHODS = ("get", "post", "put", "patch", "delete")
_UNTAGGED = "operations"


@dataclass(frozen=True)
class _Operation:
    method: str
    path: str
    operation: Operation

    @property
    def title(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def anchor(self) -> str:
        return "-".join([self.method, *(part.strip("{}") for part in self.path.split("/") if part)])

    @property
    def tag(self) -> str:
        return (self.operation.tags or [_UNTAGGED])[0]

    @property
    def text(self) -> str:
        return self.operation.description or self.operation.summary or ""


def openapi_page(title: str, introduction: str, document: OpenAPI) -> str:
    """The page. An operation's anchor is ``<method>-<path>``, a message's ``message-<name>``."""
    operations = list(_operations(document))
    messages = definitions_of(document.components.schemas if document.components else None)
    overview = [(f"[`{one.title}`](#{one.anchor})", one_line(one.text.split("\n\n")[0])) for one in operations]
    parts = [introduction, document.info.description or "", table(("operation", "what it does"), overview)]
    for tag in dict.fromkeys(one.tag for one in operations):
        parts.append(f"## {tag[:1].upper()}{tag[1:]}")
        for one in operations:
            if one.tag == tag:
                parts += _operation(one, messages)
    if messages:
        parts.append("## Messages")
    for name, schema in sorted(messages.items()):
        parts += [f"### {name} {{ #{_message_anchor(name)} }}", schema.description or ""]
        parts.append(fields_table(schema, messages, _link_to) or type_text(schema, messages, _link_to))
    return page(title, *parts)


def _operations(document: OpenAPI) -> Iterator[_Operation]:
    for path, item in (document.paths or {}).items():
        for method in _METHODS:
            operation = getattr(PathItem.model_validate(item), method)  # FastAPI's model lets anything stand there
            if operation is not None:
                yield _Operation(method, path, operation)


def _operation(one: _Operation, messages: Definitions) -> Iterator[str]:
    operation = one.operation
    yield f"### `{one.title}` {{ #{one.anchor} }}"
    yield one.text
    yield f"Token: {_token(operation)}."
    yield _parameters([given for given in operation.parameters or [] if isinstance(given, Parameter)], messages)
    if isinstance(operation.requestBody, RequestBody):
        yield f"Body: {_content(operation.requestBody.content, messages)}."
        yield _example(operation.requestBody.content)
    answers = [(status, Response.model_validate(given)) for status, given in (operation.responses or {}).items()]
    yield table(
        ("status", "meaning", "body"),
        [(status, one_line(given.description), _content(given.content, messages)) for status, given in answers],
    )
    for status, given in answers:
        if status.startswith("2"):
            yield _example(given.content)


def _token(operation: Operation) -> str:
    scopes = [code(scope) for needed in operation.security or [] for names in needed.values() for scope in names]
    return " or ".join(scopes) or "none"


def _parameters(parameters: list[Parameter], messages: Definitions) -> str:
    rows = []
    for given in parameters:
        schema = _schema(given.schema_)
        default = default_text(schema, bool(given.required), messages) if schema else ""
        kind = type_text(schema, messages, _link_to) if schema else ""
        meaning = one_line(given.description or (schema.description if schema else None))
        rows.append((code(given.name), given.in_.value, kind, default, meaning))
    return table(("parameter", "in", "type", "default", "meaning"), rows)


def _content(content: dict[str, MediaType] | None, messages: Definitions) -> str:
    """What is sent, and in which encodings."""
    if not content:
        return "none"
    shown = {kind: _schema(media.schema_) for kind, media in content.items()}
    words = {kind: type_text(schema, messages, _link_to) if schema else "anything" for kind, schema in shown.items()}
    encodings = {word: ", ".join(code(kind) for kind in words if words[kind] == word) for word in words.values()}
    return "; ".join(f"{word} as {kinds}" for word, kinds in encodings.items())


def _example(content: dict[str, MediaType] | None) -> str:
    for media in (content or {}).values():
        if media.example is not None:
            return json_block(media.example)
    return ""


def _schema(given: Schema | Reference | None) -> Schema | None:
    return Schema.model_validate({"$ref": given.ref}) if isinstance(given, Reference) else given


def _link_to(name: str) -> str:
    return f"[{name}](#{_message_anchor(name)})"


def _message_anchor(name: str) -> str:
    return f"message-{name.lower()}"
