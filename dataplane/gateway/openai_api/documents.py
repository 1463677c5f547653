"""The request documents of both endpoints, and how they are read.

Reading happens in two steps, because what may stand in a document depends on the
deployment it names: `read_json` (see bodies.py) gives the plain object, `find_model` the
model in it, and `read_document` the whole, once the engine's own parameters are known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from dataplane.gateway.openai_api.declared import EngineTakes, read_needs, refuse_tool_turn
from dataplane.gateway.openai_api.errors import ApiRefusalError, refuse
from dataplane.gateway.openai_api.limits import MAX_CHARS
from dataplane.gateway.openai_api.messages import ChatMessage, DocumentPart
from dataplane.invalid_input import say_invalid

_MAX_STOP_STRINGS = 4
_MAX_MODEL_NAME_CHARS = 256
# No model is that long; beyond 64 bits neither the record nor an engine could take the number.
_TOKENS_BOUND = 2**31
_MAX_TOP_LOGPROBS = 20
_COMPLETION_TOKENS = 16
"""OpenAI's default for /v1/completions, whose answers would otherwise fill the model."""


class StreamOptions(DocumentPart):
    """Options of a streamed answer."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    """Of vLLM, and of clients made for it: beside `include_usage`, each chunk tells the usage so
    far."""
    include_obfuscation: Literal[False] | None = None


Stop = Annotated[str, Field(min_length=1, max_length=MAX_CHARS)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
TopLogprobs = Annotated[int, Field(ge=0, le=_MAX_TOP_LOGPROBS)]
TokenKey = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,9})$")]
"""A token id as JSON writes it for a key, in the one way that it can be written: "5" and "05"
would be two keys for one token."""


class _Generation(DocumentPart):
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
    n: int | None = Field(default=None, ge=1, lt=_TOKENS_BOUND)
    ignore_eos: bool | None = None
    min_tokens: int | None = Field(default=None, ge=0, lt=_TOKENS_BOUND)
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: float | None = Field(default=None, gt=0, le=100)
    logit_bias: dict[TokenKey, Annotated[float, Field(ge=-100, le=100)]] | None = None

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Stop strings, whichever way they were given."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def num_choices(self) -> int:
        """Answers that the caller wants."""
        return self.n or 1

    @property
    def output_limit(self) -> int | None:
        """The most tokens the caller wants, or None."""
        return self.max_tokens

    @property
    def num_logprobs(self) -> int | None:
        """Likeliest tokens told beside each selected one; None: nothing is told."""
        raise NotImplementedError


class ChatDocument(_Generation):
    """A body of POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1, lt=_TOKENS_BOUND)
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None

    @property
    def output_limit(self) -> int | None:
        """The newer name wins; both together are refused when they differ."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def num_logprobs(self) -> int | None:
        """As asked for in two parameters."""
        return (self.top_logprobs or 0) if self.logprobs else None


TokenId = Annotated[int, Field(ge=0, lt=_TOKENS_BOUND)]


class CompletionDocument(_Generation):
    """A body of POST /v1/completions."""

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=1)] | list[TokenId]
    logprobs: TopLogprobs | None = None

    @property
    def output_limit(self) -> int:
        """OpenAI's default is low, and here the same."""
        return self.max_tokens or _COMPLETION_TOKENS

    @property
    def num_logprobs(self) -> int | None:
        """As asked for in one number."""
        return self.logprobs

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


def check_prompt_length(body: Mapping[str, Any], max_model_len: int | None) -> None:
    """Raises ApiRefusalError for a prompt of more token ids than the model takes, before each of
    them is looked at."""
    prompt = body.get("prompt")
    if max_model_len is not None and isinstance(prompt, list) and len(prompt) > max_model_len:
        raise refuse(
            f"This model's maximum context length is {max_model_len} tokens, and the prompt has "
            f"{len(prompt)}. Please shorten it.",
            param="prompt",
            code="context_length_exceeded",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDocument:
    """A document, and which of its parameters its engine must take."""

    document: Document
    needs: frozenset[str]


def read_document(
    kind: type[Document], body: Mapping[str, Any], takes: EngineTakes
) -> ReadDocument:
    """Check `body` whole. Raises ApiRefusalError naming the first wrong field."""
    needs = read_needs(body, kind.model_fields.keys(), takes)
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
        needs |= _check_tool_messages(document, takes)
    if document.min_tokens and document.min_tokens > (document.output_limit or _TOKENS_BOUND):
        raise refuse(
            f"'min_tokens' is {document.min_tokens}, more than the {document.output_limit} tokens "
            f"that are generated at most; lower it or raise 'max_tokens'.",
            param="min_tokens",
            code="invalid_value",
        )
    return ReadDocument(document=document, needs=needs)


def _check_tool_messages(document: ChatDocument, takes: EngineTakes) -> frozenset[str]:
    """Turns of tools are for engines that take tools."""
    for index, message in enumerate(document.messages):
        if (field := message.tool_field) is not None:
            if takes.lacks("tools"):
                kind = f"of role '{message.role}'" if field == "role" else f"with '{field}'"
                raise refuse_tool_turn(kind, takes.engine, f"messages.{index}.{field}")
            return frozenset({"tools"})
    return frozenset()


def _check_limits_agree(document: ChatDocument) -> None:
    if document.top_logprobs and not document.logprobs:
        raise refuse(
            "'top_logprobs' needs 'logprobs' to be true.",
            param="top_logprobs",
            code="invalid_value",
        )
    old, new = document.max_tokens, document.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise refuse(
            f"'max_tokens' ({old}) and 'max_completion_tokens' ({new}) disagree; send one of them.",
            param="max_tokens",
        )


# Fields that may take several shapes: pydantic would tell about only one of them.
_SHAPES = {
    "prompt": "must be a string, a list of one string, or a list of token ids",
    "stop": f"must be a string or a list of up to {_MAX_STOP_STRINGS} strings, none of them empty "
    f"or longer than {MAX_CHARS} characters",
    "logit_bias": 'must map token ids, such as "50256", to numbers from -100 to 100',
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
    said = say_invalid(kind, worst["msg"])
    return refuse(f"Invalid '{param}': {said}.", param=param, code=code)


def _is_field(part: int | str) -> bool:
    # A union's branch stands in the location as the name of its type.
    return isinstance(part, int) or (part.isidentifier() and part != "str")
