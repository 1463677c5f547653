"""A scene: one way to drive an engine, what that is, and what the diagnosis made of it."""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from controlplane.cli.diagnosis_output import diagnosis_text
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.sources.live import Progress, watch
from controlplane.diagnosis.window import Window

_WARM_UP_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Closed: so many callers, each of which asks again as soon as it is answered."""

    num_callers: int
    prompt_tokens: int
    output_tokens: int
    """The most that one answer has."""
    is_varied: bool = False
    """Answers have from a third of that on. Callers of answers that are equally long end together,
    and hold up one another with all their prompts at once, which is no healthy load."""

    def next_output_tokens(self, random: Random) -> int:
        """How long the next answer is."""
        if not self.is_varied:
            return self.output_tokens
        return random.randint(max(1, self.output_tokens // 3), self.output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One way to drive it, and what that is."""

    name: str
    mechanism: Mechanism
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the engine, in its own words."""
    load: Load | None = None
    max_data_bytes: int | None = None
    """RLIMIT_DATA of the engine alone."""


def judged(scene: Scene, diagnosis: Diagnosis) -> bool:
    """Print what was made of it; whether that is right."""
    is_right = diagnosis.mechanism is scene.mechanism
    word = "right" if is_right else "WRONG"
    print(f"{word}  {scene.name}, which is {scene.mechanism.value}:")
    print(diagnosis_text(diagnosis) + "\n", flush=True)
    return is_right


async def until_counted(url: str, counter: str, at_least: float) -> None:
    """Wait until a counter of the page has come so far: first steps take longest, and a batch is
    filled one by one. Raises TimeoutError."""
    async with httpx.AsyncClient() as http, asyncio.timeout(_WARM_UP_SECONDS):
        while True:
            text = (await http.get(url)).raise_for_status().text
            values = [
                float(line.rpartition(" ")[2])
                for line in text.splitlines()
                if line.startswith(counter)
            ]
            if sum(values) >= at_least:
                return
            await asyncio.sleep(0.5)


async def watched(url: str, seconds: float) -> Window:
    """What `pilothouse diagnose URL` would look at."""
    async for seen in watch([url], seconds=seconds):
        if not isinstance(seen, Progress):
            return seen
    raise AssertionError("a watch ends with its window")
