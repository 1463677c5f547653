"""Attempts that are to be cancelled: at a random moment of their life, in a random way.

The moments are those in which something is held: a part of a body, a place in the queue, a slot
and what was reserved with it, blocks of an engine, a stream that is written, one that its client
does not read. A few attempts stay to their end, so that it is seen that answers are answers.
"""

import json
from random import Random
from typing import Any

from ops.endurance.attempt import Attempt, Kind
from ops.endurance.documents import MODEL

TENANTS = ("default", "heavy", "small", "batch", "hurried")

_SHARES = {
    Kind.LEAVES_IN_HEAD: 2,
    Kind.LEAVES_IN_BODY: 8,
    Kind.LEAVES_WAITING: 40,
    Kind.LEAVES_IN_STREAM: 24,
    Kind.LEAVES_READING_SLOWLY: 2,
    Kind.LEAVES_AFTER_END: 6,
    Kind.LEAVES_TWICE: 10,
    Kind.STREAM: 3,
    Kind.WHOLE: 3,
    Kind.SENDS_SLOWLY: 1,
    Kind.INVALID: 1,
}
_BRIEF = (Kind.LEAVES_AFTER_END, Kind.STREAM, Kind.WHOLE, Kind.SENDS_SLOWLY)
_STREAMS = (Kind.LEAVES_IN_STREAM, Kind.LEAVES_READING_SLOWLY, Kind.STREAM)
_STAYS = (0.0, 0.002, 0.01, 0.05, 0.2, 0.8)
"""Seconds, of which each is the most that one may stay: from before its body is parsed to long
after its turn has come."""
_STARTS = ("Once upon a time there was a ship that nobody had seen ", "The quick brown fox ", "")
_WORDS = ("sea", "ship", "fog", "harbour", "lantern")


def plan_cancel(seed: int, number: int) -> Attempt:
    """What attempt `number` is; the same for the same seed."""
    random = Random(f"cancel {seed}/{number}")
    kind = random.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
    is_chat = random.random() < 0.3
    is_stream = kind in _STREAMS or (kind is not Kind.WHOLE and random.random() < 0.7)
    return Attempt(
        number=number,
        kind=kind,
        trace_id=f"{random.getrandbits(128):032x}",
        tenant=random.choices(TENANTS, (40, 20, 6, 20, 14))[0],
        path="/v1/chat/completions" if is_chat else "/v1/completions",
        headers=_headers(random),
        body=_body(random, kind, is_chat, is_stream),
        is_stream=is_stream,
        leaves_after_seconds=random.random() * random.choice(_STAYS),
        leaves_by_reset=random.random() < 0.5,
        num_chunks=random.choice((1, 1, 2, 5, 20)),
    )


def _headers(random: Random) -> dict[str, str]:
    headers = {}
    if random.random() < 0.5:
        headers["x-session-id"] = f"session-{random.randrange(200)}"
    if random.random() < 0.1:
        headers["x-stainless-retry-count"] = str(random.randint(1, 3))
    return headers


def _body(random: Random, kind: Kind, is_chat: bool, is_stream: bool) -> bytes:
    is_brief = kind in _BRIEF
    # Some prompts begin alike, so that blocks are shared; some are the same, so that a retry may
    # be told by its body.
    start = random.choice(_STARTS)
    num_words = random.choice((1, 6, 40, 50))
    prompt = start + " ".join(random.choice(_WORDS) for _ in range(num_words))
    most_tokens = 128 if num_words < 50 else 64
    body: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": random.randint(2, 8) if is_brief else random.randint(16, most_tokens),
        "temperature": random.choice((0, 1)),
    }
    body |= {"messages": [{"role": "user", "content": prompt}]} if is_chat else {"prompt": prompt}
    if kind is Kind.INVALID:
        body["max_tokens"] = -1
    if is_stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if not is_brief:
        body["ignore_eos"] = True
        if random.random() < 0.1:
            body["n"] = random.randint(2, 3)
    return json.dumps(body).encode()
