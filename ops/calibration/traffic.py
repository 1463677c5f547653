"""Traffic that is sent: when each request comes, and how many tokens it brings and asks for.

Open loop: a request is sent at its time, whatever became of those before it. Prompts are token
ids drawn at random, so none shares a prefix with another, and every answer has exactly the
length that was asked for.
"""

import asyncio
import json
import math
import random
from dataclasses import dataclass
from urllib.parse import urlsplit

_FIRST_PROMPT_ID = 1000
_LAST_PROMPT_ID = 40_000
_READ_BYTES = 65_536
_CHUNK = b"data: {"
_END = b"data: [DONE]"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens: lognormal around a median, cut at both ends."""

    median: float
    sigma: float
    least: int
    most: int

    def draw(self, rng: random.Random) -> int:
        """One length."""
        drawn = rng.lognormvariate(math.log(self.median), self.sigma)
        return min(self.most, max(self.least, round(drawn)))


@dataclass(frozen=True, slots=True)
class Mix:
    """What requests are like."""

    prompt: Lengths
    output: Lengths


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request. `at` is in seconds since the traffic began."""

    at: float
    num_prompt_tokens: int
    num_output_tokens: int


def poisson(mix: Mix, rate: float, seconds: float, seed: int) -> list[Arrival]:
    """Arrivals at `rate` a second, independent of each other, for so long."""
    rng = random.Random(seed)
    arrivals: list[Arrival] = []
    at = rng.expovariate(rate)
    while at < seconds:
        arrivals.append(Arrival(at, mix.prompt.draw(rng), mix.output.draw(rng)))
        at += rng.expovariate(rate)
    return arrivals


def at_once(mix: Mix, count: int, seed: int) -> list[Arrival]:
    """`count` requests at one moment: all that a replica can take."""
    rng = random.Random(seed)
    return [Arrival(0.0, mix.prompt.draw(rng), mix.output.draw(rng)) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Answer:
    """When a stream came in, as its client saw it. Seconds since the traffic began."""

    sent_at: float
    chunks_at: tuple[float, ...]
    """Of each chunk that carries something; a server may put several tokens into one."""


async def send(url: str, model: str, arrivals: list[Arrival], seed: int) -> list[Answer]:
    """Send each at its time and read every answer to its end; answers in order of `arrivals`.

    Raises ConnectionError for an answer that is no stream of the service's.
    """
    rng = random.Random(seed)
    requests = [_request(url, model, arrival, rng) for arrival in arrivals]
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    exchanges = []
    async with asyncio.TaskGroup() as tasks:
        for arrival, request in zip(arrivals, requests, strict=True):
            await asyncio.sleep(started_at + arrival.at - loop.time())
            exchanges.append(tasks.create_task(_exchange(url, request, started_at)))
    return [exchange.result() for exchange in exchanges]


def _request(url: str, model: str, arrival: Arrival, rng: random.Random) -> bytes:
    body = {
        "model": model,
        "prompt": [
            rng.randint(_FIRST_PROMPT_ID, _LAST_PROMPT_ID) for _ in range(arrival.num_prompt_tokens)
        ],
        "max_tokens": arrival.num_output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
        f"connection: close\r\n\r\n"
    )
    return head.encode() + content


async def _exchange(url: str, request: bytes, started_at: float) -> Answer:
    """By hand: a client library would take the engine's processor time."""
    address = urlsplit(url)
    clock = asyncio.get_running_loop().time
    sent_at = clock() - started_at
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    answer = bytearray()
    chunks_at: list[float] = []
    try:
        writer.write(request)
        while piece := await reader.read(_READ_BYTES):
            unseen = max(0, len(answer) - len(_CHUNK) + 1)  # one may lie over two pieces
            answer += piece
            chunks_at += [clock() - started_at] * answer.count(_CHUNK, unseen)
    finally:
        writer.close()
    if not answer.startswith(b"HTTP/1.1 200") or _END not in answer[-200:]:
        raise ConnectionError(
            f"no whole answer: {bytes(answer[:200])!r} ... {bytes(answer[-100:])!r}"
        )
    return Answer(sent_at, tuple(chunks_at))
