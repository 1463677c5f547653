"""All shapes of lines and all forms of statistics that are known."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from controlplane.diagnosis.sources.log import (
    host,
    http,
    llamacpp,
    llamacpp_speeds,
    memory,
    pilothouse,
    platforms,
    sglang,
    tgi,
    trtllm,
    vllm,
    vllm_start,
)
from controlplane.diagnosis.sources.log.figure import FigurePlace
from controlplane.diagnosis.sources.log.shape import ShapeTable


@dataclass(frozen=True, slots=True)
class StatisticsForm:
    """Lines in which an engine says its figures again and again."""

    engine: str
    keys: frozenset[str]
    """Words of which such a line holds one."""
    start: re.Pattern[str]
    """What makes it one. A line that has this and no figure was cut off."""
    find: Callable[[str], Iterator[FigurePlace]]
    event_keys: frozenset[str] | None
    """Words that make it an event as well; None: any may be."""


STATISTICS = (
    StatisticsForm(
        "vllm",
        vllm.STATISTICS_KEYS,
        vllm.STATISTICS_START,
        vllm.find_statistics,
        frozenset({"Preemptions"}),
    ),
    StatisticsForm(
        "sglang",
        sglang.STATISTICS_KEYS,
        sglang.STATISTICS_START,
        sglang.find_statistics,
        frozenset(),
    ),
    StatisticsForm(
        "llama.cpp",
        llamacpp_speeds.STATISTICS_KEYS,
        llamacpp_speeds.STATISTICS_START,
        llamacpp_speeds.find_statistics,
        None,
    ),
    StatisticsForm(
        "trtllm",
        trtllm.STATISTICS_KEYS,
        trtllm.STATISTICS_START,
        trtllm.find_statistics,
        frozenset(),
    ),
)

SHAPES = ShapeTable(
    (
        *memory.SHAPES,
        *vllm_start.SHAPES,
        *vllm.SHAPES,
        *sglang.SHAPES,
        *llamacpp.SHAPES,
        *tgi.SHAPES,
        *trtllm.SHAPES,
        *pilothouse.SHAPES,
        *platforms.SHAPES,
        *host.SHAPES,
        *http.SHAPES,
    )
)
"""Where a line fits two shapes, the earlier one counts: first what ran out of memory, then what
an engine says in words of its own, then what many programs say."""
