"""Whether an implementation fired when it should: how late or early it may be, and why."""

from collections.abc import Iterator
from dataclasses import dataclass

from ops.bench.slo.replays import EVALUATION_SECONDS, Fires
from ops.bench.slo.traffic import MINUTE, SCRAPE_SECONDS, Scenario
from ops.bench.slo.truth import Fired

_LONG_WINDOW_HOURS = {"ticket_quick": 24, "ticket_slow": 72}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A grade that fired, or stayed silent, as it should not have."""

    grade: str
    due: Fired | None
    seen: Fired | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A scrape, an evaluation of the counts and one of the alerts. Windows of days are sums of
    five minutes, once a minute."""

    scenario: Scenario

    def allowed(self, grade: str, due: Fired) -> tuple[int, int]:
        """Seconds by which the first moment, and the last one, may differ."""
        allowed = SCRAPE_SECONDS + 2 * EVALUATION_SECONDS
        if grade in _LONG_WINDOW_HOURS:
            allowed += 5 * MINUTE + MINUTE
        return allowed + self._hidden_after(due.first), allowed + self._hidden_after(due.last)

    def _hidden_after(self, moment: int) -> int:
        """What nobody scrapes is seen when scrapes return, and so is what came after the last."""
        at = moment - self.scenario.trouble_at
        hidden = (
            end - at for start, end in self.scenario.unscraped if start - SCRAPE_SECONDS < at < end
        )
        return max(hidden, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCounts:
    """A minute that is under way, and an evaluation. Windows of days begin with a whole hour, so
    that they hold up to an hour more, in which all was well."""

    scenario: Scenario

    def allowed(self, grade: str, due: Fired) -> tuple[int, int]:
        """Seconds by which the first moment, and the last one, may differ."""
        allowed = MINUTE + EVALUATION_SECONDS
        hours = _LONG_WINDOW_HOURS.get(grade)
        took = max(0, due.first - self.scenario.trouble_at)
        return allowed + (0 if hours is None else took // hours + MINUTE), allowed


def disagreements(
    due: Fires, seen: Fires, watcher: Prometheus | OwnCounts
) -> Iterator[Disagreement]:
    """Of one promise. What was due for a shorter time than the watcher may be late by can pass
    unseen."""
    for grade in sorted({*due, *seen}):
        should, did = due.get(grade), seen.get(grade)
        if should is None or did is None:
            is_short = should is not None and should.last - should.first < max(
                watcher.allowed(grade, should)
            )
            if not is_short:
                yield Disagreement(grade=grade, due=should, seen=did)
            continue
        first, last = watcher.allowed(grade, should)
        if abs(did.first - should.first) > first or abs(did.last - should.last) > last:
            yield Disagreement(grade=grade, due=should, seen=did)
