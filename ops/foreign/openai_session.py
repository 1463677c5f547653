"""What the openai client does: streams, tools, retries, timeouts, and leaving in mid-stream.

Run in an environment of its own, where nothing of ours is. Prints one line of JSON: what was seen.
"""

import asyncio
import json
import sys
import time
from typing import Any

import openai

MODEL = "bytes"
_MANY = 60
_LEAVING = 12


def say(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


async def read_stream(client: openai.AsyncOpenAI) -> dict[str, Any]:
    """One stream by its chunks, and one by the client's own events."""
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=say("hello"),
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    chunks = [chunk async for chunk in stream]
    kinds = []
    async with client.chat.completions.stream(
        model=MODEL, messages=say("hello"), max_tokens=8, extra_body={"ignore_eos": True}
    ) as events:
        kinds = [event.type async for event in events]
    return {
        "usage_tokens": chunks[-1].usage.completion_tokens if chunks[-1].usage else None,
        "finish_reason": next(c.choices[0].finish_reason for c in reversed(chunks) if c.choices),
        "event_kinds": sorted(set(kinds)),
    }


async def many_at_once(client: openai.AsyncOpenAI) -> dict[str, Any]:
    """More than there are slots; some ask for two answers."""
    answers = await asyncio.gather(
        *(
            client.chat.completions.create(
                model=MODEL, messages=say(f"question {number}"), max_tokens=10, n=1 + number % 2
            )
            for number in range(_MANY)
        ),
        return_exceptions=True,
    )
    answered = [each for each in answers if not isinstance(each, BaseException)]
    return {"answered": len(answered), "choices": sum(len(each.choices) for each in answered)}


async def leave(client: openai.AsyncOpenAI) -> dict[str, Any]:
    """In mid-stream, after the first chunk."""
    num_left = 0
    for number in range(_LEAVING):
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=say(f"leave {number}"),
            max_tokens=2000,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        async for _ in stream:
            break
        await stream.close()
        num_left += 1
    return {"left": num_left}


async def time_out(client: openai.AsyncOpenAI) -> dict[str, Any]:
    """A call that takes longer than its client waits."""
    hurried = client.with_options(timeout=0.5, max_retries=0)
    try:
        await hurried.chat.completions.create(
            model=MODEL, messages=say("slow"), max_tokens=2000, extra_body={"ignore_eos": True}
        )
    except openai.APITimeoutError:
        return {"timed_out": True}
    return {"timed_out": False}


async def be_refused(client: openai.AsyncOpenAI, small: openai.AsyncOpenAI) -> dict[str, Any]:
    """Errors by their classes; and a limit that the client waits out as it is told to."""
    seen = {}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("no model", {"model": "nobody", "messages": say("x")}),
        ("no messages", {"model": MODEL, "messages": []}),
        ("too long", {"model": MODEL, "messages": say("x"), "max_tokens": 10**6}),
        ("tools", {"model": MODEL, "messages": say("x"), "tools": [_TOOL]}),
    ]
    for name, body in wrong:
        try:
            await client.chat.completions.create(**body)
        except openai.APIStatusError as error:
            has_id = error.request_id is not None
            seen[name] = [type(error).__name__, error.code, has_id]
    began = time.monotonic()
    calls = [
        small.chat.completions.create(
            model=MODEL, messages=say(f"small {n}"), max_tokens=60, extra_body={"ignore_eos": True}
        )
        for n in range(3)
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    kinds = [type(each).__name__ for each in answers if isinstance(each, BaseException)]
    return {
        "refused": seen,
        "limited_answered": len(calls) - len(kinds),
        "limited_failed": kinds,
        "limited_seconds": time.monotonic() - began,
    }


_TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}


async def main(address: str) -> None:
    """Everything, one after the other."""
    async with (
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", timeout=60) as client,
        openai.AsyncOpenAI(
            base_url=f"{address}/v1",
            api_key="none",
            timeout=60,
            max_retries=6,
            default_headers={"x-pilothouse-tenant": "small"},
        ) as small,
    ):
        seen = {"models": [model.id for model in (await client.models.list()).data]}
        seen |= await read_stream(client)
        seen |= await many_at_once(client)
        seen |= await leave(client)
        seen |= await time_out(client)
        seen |= await be_refused(client, small)
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
