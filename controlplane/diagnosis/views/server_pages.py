"""What servers that show no metrics page answer to what else they are asked, each of several."""

import re
from typing import NamedTuple

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.answers import NO_ANSWER

_TIMED_OUT = re.compile(NO_ANSWER, re.IGNORECASE)
"""A process that died refuses connections; one that stands still takes them and says nothing."""


class ServerPages(NamedTuple):
    """Of one server."""

    connection: Fact
    metrics: Fact
    health: Fact | None
    models: Fact | None

    @property
    def is_engine(self) -> bool:
        """It says that it serves models."""
        return self.models is not None and "a list of models" in self.models.raw

    @property
    def is_silent(self) -> bool:
        """It takes connections, and nothing that was asked is answered."""
        asked = [each for each in (self.metrics, self.health, self.models) if each is not None]
        is_taken = self.connection.raw.startswith("accepted")
        return is_taken and all(_TIMED_OUT.search(each.raw) for each in asked)


def pages_of_each(window: Window) -> dict[str, ServerPages]:
    """By the server's name, empty where there is one alone; without those that show metrics."""
    found: dict[str, ServerPages] = {}
    for connection in window.facts_of("connection"):
        name = connection.part or ""
        metrics = _of(window, "page answer", connection.part)
        if metrics is None or _shows_metrics(window, name):
            continue
        health, models = (
            _of(window, key, connection.part) for key in ("health answer", "models answer")
        )
        found[name] = ServerPages(connection, metrics, health, models)
    of_several = {name: pages for name, pages in found.items() if name}
    return of_several or found


def _of(window: Window, phrase: str, part: str | None) -> Fact | None:
    own = [fact for fact in window.facts_of(phrase) if fact.part == part]
    return own[-1] if own else None


def _shows_metrics(window: Window, name: str) -> bool:
    if not name:
        return bool(window.exported_names)
    return any(
        each.origin.kind is SourceKind.METRICS and each.labels.get("replica") == name
        for each in window.series
    )
