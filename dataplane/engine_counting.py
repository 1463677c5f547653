"""Prompts that only their engine can count: the gateway has no tokenizer of the model."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class CountsPrompts(Protocol):
    """An EngineClient whose engine offers its tokenizer."""

    async def count_prompt(self, body: Mapping[str, Any]) -> int | None:
        """The tokens of the prompt, or of the messages, in a request's body; None: it cannot count
        this one. Raises EngineUnavailableError."""
        ...
