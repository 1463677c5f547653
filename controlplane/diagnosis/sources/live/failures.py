"""What goes wrong before anything can be watched."""

from collections.abc import Sequence
from typing import NamedTuple

REMEDIES = (
    "vLLM serves /metrics always, beside its API",
    "SGLang only with --enable-metrics",
    "llama.cpp's server only with --metrics, and with several models only for /metrics?model=NAME",
    "TensorRT-LLM at /prometheus/metrics",
    "a Pilothouse replica on a port of its own, which `pilothouse get replicas -o wide` shows",
)


class Try(NamedTuple):
    """One address that was asked, and what came of it."""

    url: str
    answer: str


class NoMetricsError(Exception):
    """Nothing that was tried is a metrics page."""

    def __init__(self, url: str, tries: Sequence[Try]) -> None:
        self.url = url
        self.tries = tuple(tries)
        asked = "; ".join(f"{each.url}: {each.answer}" for each in tries)
        super().__init__(f"{url} has no metrics page. Asked: {asked}. {'; '.join(REMEDIES)}.")
