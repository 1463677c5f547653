"""The messages of a chat as a request holds them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dataplane.gateway.openai_api.limits import MAX_CHARS

_MAX_TOOL_CALLS = 128


class DocumentPart(BaseModel):
    """What every part of a request document has in common."""

    # Foreign fields are judged before, with the engine's declarations in hand.
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class TextPart(DocumentPart):
    """One part of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(DocumentPart):
    """One message of a conversation. Turns of tools are for engines that take tools."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None
    name: str | None = Field(default=None, max_length=MAX_CHARS)
    tool_calls: list[dict[str, Any]] | None = Field(default=None, max_length=_MAX_TOOL_CALLS)
    tool_call_id: str | None = Field(default=None, max_length=MAX_CHARS)
    function_call: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _settle_nulls(cls, value: Any) -> Any:
        """Clients send our own answers back, whose unused fields are null; one that only called
        tools has no content."""
        if not isinstance(value, dict):
            return value
        kept = {k: v for k, v in value.items() if v is not None}
        if kept.get("tool_calls") or kept.get("function_call"):
            kept.setdefault("content", None)
        return kept

    @property
    def text(self) -> str:
        """The content as one string."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text for part in self.content)

    @property
    def tool_field(self) -> str | None:
        """The field that makes it a turn of tools, if one does."""
        if self.role in ("tool", "function"):
            return "role"
        if self.tool_call_id is not None:
            return "tool_call_id"
        if self.tool_calls:
            return "tool_calls"
        return "function_call" if self.function_call else None
