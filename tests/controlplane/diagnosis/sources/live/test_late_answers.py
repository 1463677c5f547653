"""A busy engine that answers late what it is asked about itself is asked again."""

import asyncio
import json
import threading

from controlplane.diagnosis.sources.live.address import read_address
from controlplane.diagnosis.sources.live.late_answers import LateAnswers
from controlplane.diagnosis.sources.live.page import create_http
from controlplane.diagnosis.sources.live.self_description import ask
from tests.controlplane.diagnosis.sources.live.test_watching import Answer, Pages, engine

_SECONDS = 0.2
_SLOTS = (200, json.dumps([{"n_ctx": 512, "is_processing": True}] * 2))


def test_what_was_late_is_asked_again_and_what_came_is_not() -> None:
    free = threading.Event()

    def props() -> Answer:
        free.wait(5)
        return 200, json.dumps({"total_slots": 2, "build_info": "b1"})

    pages: Pages = {"/props": props, "/slots": _SLOTS, "/health": (200, "{}")}

    async def look(url: str) -> tuple[dict[str, object], dict[str, object]]:
        address = read_address(url)
        async with create_http() as http:
            described = await ask(http, address, "llama.cpp", seconds=_SECONDS)
            at_first = dict(described.said)
            free.set()
            answers = LateAnswers(described)
            while described.late:
                answers.try_again(http, address)
                await asyncio.sleep(0.01)
            answers.try_again(http, address)
            await answers.give_up()
        return at_first, described.said

    with engine(pages) as (url, asked):
        at_first, later = asyncio.run(look(url))
    assert at_first == {"health": "200"}
    assert (later["slots"], later["version"], later["health"]) == (2, "b1", "200")
    assert asked.count("GET /slots") == 1


def test_who_never_answers_is_asked_a_bounded_number_of_times() -> None:
    free = threading.Event()

    def props() -> Answer:
        free.wait(5)
        return 200, "{}"

    async def look(url: str) -> None:
        address = read_address(url)
        async with create_http() as http:
            described = await ask(http, address, "llama.cpp", seconds=_SECONDS)
            answers = LateAnswers(described, seconds=_SECONDS)
            for _ in range(200):
                answers.try_again(http, address)
                await asyncio.sleep(0.01)
            await answers.give_up()
        free.set()

    with engine({"/props": props, "/health": (200, "{}")}) as (url, asked):
        asyncio.run(look(url))
    assert asked.count("GET /props") == 6
