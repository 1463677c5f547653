"""What of an answer is reasoning: the part that a model thinks aloud before it answers.

Engines that set it apart stream it in a field of its own of a chat chunk's `delta`: vLLM as
`reasoning` (`reasoning_content` in older releases), SGLang and llama.cpp as `reasoning_content`.
Whatever else stands in a delta (tool calls, a refusal) is the answer, and so is all text: of an
engine that leaves reasoning in the text nobody can tell where the answer begins.
"""

from collections.abc import Mapping
from typing import Any

_FIELDS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})


def is_reasoning(delta: Mapping[str, Any] | None, text: str | None = None) -> bool:
    """Whether a chunk holds reasoning and nothing of the answer."""
    return not text and bool(delta) and delta is not None and _FIELDS.issuperset(delta)


def is_answer(delta: Mapping[str, Any] | None, text: str | None = None) -> bool:
    """Whether a chunk holds something of the answer."""
    return bool(text) or (bool(delta) and not is_reasoning(delta))
