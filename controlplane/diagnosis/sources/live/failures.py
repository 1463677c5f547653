"""What goes wrong before anything can be watched."""

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.diagnosis.window import Window

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
    status: int | None = None
    """None: there was no answer."""
    kind: str = ""
    """The same without a word of the answer, for those who may not read what is answered there."""
    is_host_unknown: bool = False
    """The name of the host has no address, so nobody was asked."""
    is_late: bool = False
    """Nothing came in time."""
    is_refused: bool = False
    """Nothing listens at its port."""
    is_no_page: bool = False
    """Somebody answered, and it was no whole answer of HTTP or one that is not read."""

    @property
    def is_answered(self) -> bool:
        """By whatever."""
        return self.status is not None or self.is_no_page


class StoppedError(Exception):
    """Who watches had enough before anything was seen."""

    def __init__(self) -> None:
        super().__init__("stopped before anything was seen, so there is nothing to judge")


class NoMetricsError(Exception):
    """Nothing that was tried is a metrics page."""

    def __init__(self, url: str, tries: Sequence[Try], window: Window | None = None) -> None:
        self.url = url
        self.tries = tuple(tries)
        self.window = window
        """What was seen all the same; None: nobody looked."""
        asked = "; ".join(f"{each.url}: {each.answer}" for each in tries)
        if self.is_host_unknown:
            super().__init__(f"{url} cannot be asked: {self.tries[0].answer}. {_CHECK_NAME}.")
            return
        super().__init__(f"{_what(url, self.tries)}. Asked: {asked}. {_remedy(self.tries)}.")

    @property
    def is_host_unknown(self) -> bool:
        """Nothing can be said of an engine: its host's name has no address."""
        return any(each.is_host_unknown for each in self.tries)

    @property
    def is_unanswered(self) -> bool:
        """Nobody said anything at all."""
        return not any(each.is_answered for each in self.tries)

    @property
    def is_refused(self) -> bool:
        """Nothing listens there."""
        return all(each.is_refused for each in self.tries)


def _what(url: str, tries: Sequence[Try]) -> str:
    if not any(each.is_answered for each in tries):
        return f"{url} does not answer"
    if any(each.status in _REFUSED for each in tries):
        return f"{url} wants to know who asks"
    if all(each.is_no_page for each in tries):
        return f"{url} answers, and with no metrics page"
    return f"{url} has no metrics page"


def _remedy(tries: Sequence[Try]) -> str:
    if all(each.is_refused for each in tries):
        return (
            "Nothing listens there: if host and port are right, its process is gone, and its log "
            "tells why (`pilothouse diagnose engine.log`, `pilothouse runbook engine.gone`)"
        )
    if not any(each.is_answered for each in tries):
        return (
            "If host and port are right, and http or https, the server is down or hangs: its log "
            "tells more (`pilothouse diagnose engine.log`), and `pilothouse runbook engine.hung`"
        )
    if any(each.status in _REFUSED for each in tries):
        return "Name a file that holds its key with --engine-key-file"
    if all(each.is_no_page for each in tries):
        return (
            "Something answers there: if it is a proxy, a login or another program, give the "
            "engine's own host and port, and http or https"
        )
    return "; ".join(REMEDIES)


_CHECK_NAME = (
    "Look for a slip in the name of the host, and whether this machine asks the name server that "
    "knows it"
)
_REFUSED = (401, 403)
