"""One HTTP exchange with a foreign engine, as it was recorded, and the files that hold them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parent


class Exchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked and the bytes that were answered, as text."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    status: int
    content_type: str
    answer: str
    note: str = ""
    """What was left out of the answer, if anything."""


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """The exchanges of one server."""

    engine: str
    version: str
    source: str
    """How it came about: recorded from a running server, or written down from public sources."""
    exchanges: list[Exchange]


def read_transcript(name: str) -> Transcript:
    """`name` of a file in this folder, without its suffix."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Transcript)


def write_transcript(name: str, transcript: Transcript) -> None:
    """Readable, one field a line."""
    encoded = msgspec.json.format(msgspec.json.encode(transcript), indent=1)
    (FOLDER / f"{name}.json").write_bytes(encoded + b"\n")


def what_is_asked(body: Mapping[str, Any] | None) -> tuple[str, str]:
    """What chooses among exchanges of one path: a chat's last message, or the prompt."""
    said = body or {}
    messages = said.get("messages")
    if isinstance(messages, Sequence) and messages:
        return "chat", str(messages[-1].get("content"))
    return "prompt", str(said.get("prompt", said.get("content", "")))
