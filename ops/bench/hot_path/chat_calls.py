"""Chats as the load client sends them, written down before the run."""

from collections.abc import Sequence

import msgspec

from ops.bench.hot_path.stream_call import StreamCall

_SENTENCE = "The quick brown fox jumps over the lazy dog near the river bank. "


def prompt_of(num_chars: int, begins: str = "") -> str:
    """Plain text of that length."""
    return (begins + _SENTENCE * (1 + num_chars // len(_SENTENCE)))[:num_chars]


def chat_payload(
    address: str, prompt: str, max_tokens: int, headers: Sequence[tuple[str, str]] = ()
) -> bytes:
    """A streamed chat of one prompt as a whole HTTP request."""
    body = msgspec.json.encode(
        {
            "model": "stub",
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "stream": True,
        }
    )
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        f"host: {address}",
        "content-type: application/json",
        "authorization: Bearer none",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chat_calls(payload: bytes, times: Sequence[float]) -> list[StreamCall]:
    """One call of the same payload for each time."""
    return [
        StreamCall(number=number, payload=payload, scheduled_at=at)
        for number, at in enumerate(times)
    ]
