"""The request documents of both endpoints, and how they are read.

Reading happens in two steps, because what may stand in a document depends on the
deployment it names: `read_json` gives the plain object, `find_model` the model in it, and
`read_document` the whole, once the engine's own parameters are known.
"""

from collections.abc import Mapping, Set
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dataplane.gateway.openai_api.errors import ApiRefusalError, refuse
from dataplane.gateway.openai_api.parameters import check_foreign_parameters

_MAX_STOP_STRINGS = 4
_MAX_MODEL_NAME_CHARS = 256
# No model is that long; beyond 64 bits neither the record nor an engine could take the number.
_TOKENS_BOUND = 2**31
# Not OpenAI's, with the values that ask for nothing; others need an engine that declares them.
_EXTENSIONS: Mapping[str, tuple[Any, ...]] = {
    "ignore_eos": (None, False),
    "top_k": (None, 0, -1),
}


class _Document(BaseModel):
    # Foreign fields are judged before, with the engine's declarations in hand.
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class TextPart(_Document):
    """One part of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(_Document):
    """One message of a conversation."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        """Clients send our own answers back, whose unused fields are null."""
        if not isinstance(value, dict):
            return value
        return {k: v for k, v in value.items() if v is not None or k in cls.model_fields}

    @property
    def text(self) -> str:
        """The content as one string."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class StreamOptions(_Document):
    """Options of a streamed answer."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


Stop = Annotated[str, Field(min_length=1)]


class _Generation(_Document):
    """What both endpoints share."""

    model: str = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, lt=_TOKENS_BOUND)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: Stop | Annotated[list[Stop], Field(max_length=_MAX_STOP_STRINGS)] | None = None
    max_tokens: int | None = Field(default=None, ge=1, lt=_TOKENS_BOUND)
    n: Literal[1] | None = None
    ignore_eos: bool | None = None

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Stop strings, whichever way they were given."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def output_limit(self) -> int | None:
        """The most tokens the caller wants, or None."""
        return self.max_tokens


class ChatDocument(_Generation):
    """A body of POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1, lt=_TOKENS_BOUND)

    @property
    def output_limit(self) -> int | None:
        """The newer name wins; both together are refused when they differ."""
        return self.max_completion_tokens or self.max_tokens


TokenId = Annotated[int, Field(ge=0, lt=_TOKENS_BOUND)]


class CompletionDocument(_Generation):
    """A body of POST /v1/completions."""

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=1)] | list[TokenId]

    @property
    def text(self) -> str | None:
        """The prompt as text, or None when it came as token ids."""
        if isinstance(self.prompt, str):
            return self.prompt
        first = self.prompt[0] if self.prompt else None
        return first if isinstance(first, str) else None

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The prompt as token ids, empty when it came as text."""
        if isinstance(self.prompt, str):
            return ()
        return tuple(item for item in self.prompt if isinstance(item, int))


Document = ChatDocument | CompletionDocument


def read_json(body: bytes) -> dict[str, Any]:
    """The body as a JSON object. Raises ApiRefusalError."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise refuse(f"The body is not valid JSON: {error}", code="invalid_json") from error
    if not isinstance(value, dict):
        raise refuse("The body must be a JSON object.", code="invalid_json")
    return value


def find_model(body: Mapping[str, Any]) -> str:
    """The model that the body names. Raises ApiRefusalError."""
    model = body.get("model")
    if model is None:
        raise refuse(
            "You must provide a 'model' parameter.", param="model", code="missing_parameter"
        )
    if not isinstance(model, str):
        raise refuse(
            "Invalid type for 'model': expected a string.", param="model", code="invalid_type"
        )
    if len(model) > _MAX_MODEL_NAME_CHARS:
        raise refuse(
            f"'model' is longer than {_MAX_MODEL_NAME_CHARS} characters.",
            param="model",
            code="invalid_value",
        )
    return model


def read_document(
    kind: type[Document], body: Mapping[str, Any], declared: Set[str] | None
) -> Document:
    """Check `body` whole.

    `declared` are the parameters that the deployment's engine takes beyond the common ones,
    None while no replica has told. Raises ApiRefusalError naming the first wrong field.
    """
    known = kind.model_fields.keys()
    for name, neutral in _EXTENSIONS.items():
        is_declared = declared is None or name in declared
        if not is_declared and body.get(name) not in neutral:
            raise refuse(
                f"'{name}' is not supported by this deployment's engine; leave it out.",
                param=name,
                code="unsupported_parameter",
            )
    check_foreign_parameters(body, known, declared)
    try:
        document = kind.model_validate(dict(body))
    except ValidationError as error:
        raise _explain(error) from error
    if document.stream_options is not None and not document.stream:
        raise refuse(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    if isinstance(document, ChatDocument):
        _check_limits_agree(document)
    return document


def _check_limits_agree(document: ChatDocument) -> None:
    old, new = document.max_tokens, document.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise refuse(
            f"'max_tokens' ({old}) and 'max_completion_tokens' ({new}) disagree; send one of them.",
            param="max_tokens",
        )


# Fields that may take several shapes: pydantic would tell about only one of them.
_SHAPES = {
    "prompt": "must be a string, a list of one string, or a list of token ids",
    "stop": f"must be a string or a list of up to {_MAX_STOP_STRINGS} strings, none of them empty",
    "n": "must be 1; send several requests instead",
}


def _explain(error: ValidationError) -> ApiRefusalError:
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    field = str(errors[0]["loc"][0])
    # Of a union's branches the one that was followed deepest is the one that was meant.
    worst = max((e for e in errors if e["loc"][0] == field), key=lambda e: len(e["loc"]))
    kind = worst["type"]
    if field in _SHAPES and kind != "missing":
        return refuse(f"'{field}' {_SHAPES[field]}.", param=field, code="invalid_value")
    param = ".".join(str(part) for part in worst["loc"] if _is_field(part))
    if kind == "missing":
        return refuse(
            f"Missing required parameter: '{param}'.", param=param, code="missing_parameter"
        )
    if kind == "extra_forbidden":
        return refuse(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
    code = "invalid_type" if kind.endswith("_type") else "invalid_value"
    return refuse(f"Invalid '{param}': {worst['msg']}.", param=param, code=code)


def _is_field(part: int | str) -> bool:
    # A union's branch stands in the location as the name of its type.
    return isinstance(part, int) or (part.isidentifier() and part != "str")
