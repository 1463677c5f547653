"""When alerts fire and end, against traffic whose every request is known.

    .venv/bin/python ops/bench/bench_alerting.py
    .venv/bin/python ops/bench/bench_alerting.py --only outage blip
    .venv/bin/python ops/bench/bench_alerting.py --markdown ops/bench/alerting.md

Three calculations of the same traffic: an independent one from every single request
(ops/bench/slo/truth.py, which imports nothing of ours), the arithmetic of the control plane over
its own counts, and our rules before promtool's evaluator, on what scrapes every 15 s saw of the
counters. The first two with three days of history; the third with an hour (`--history-hours`), and
beside it what is due then: days of it are minutes of evaluation each.

Detection is told in seconds after the trouble began, the end in seconds after it was over. A cell
that is further from what is due than a scrape and the evaluations explain (the bounds are in
ops/bench/slo/agreement.py) ends with `!`, and the bench with an error.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ops.bench.slo.agreement import Disagreement, OwnCounts, Prometheus, disagreements
from ops.bench.slo.replays import EVALUATION_SECONDS, Fires, by_own_counts, by_prometheus
from ops.bench.slo.scenarios import scenarios
from ops.bench.slo.traffic import DAY, HOUR, MINUTE, Scenario, Traffic, traffic_of
from ops.bench.slo.truth import Fired, Promised, should_fire

PROMISES = (
    *(Promised(target=target, days=30) for target in ("0.999", "0.99", "0.95", "0.9")),
    *(Promised(target=target, days=7) for target in ("0.999", "0.99")),
)
GRADES = ("page_quick", "page_slow", "ticket_quick", "ticket_slow")
_AFTER_OWN, _AFTER_PROMETHEUS = 6 * HOUR + 10 * MINUTE, 40 * MINUTE
_HEAD = ("scenario", "promised", "grade", "due", "own counts", "due, young", "Prometheus, young")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One scenario with one length of history, before one implementation."""

    scenario: Scenario
    traffic: Traffic
    due: dict[Promised, Fires]
    seen: dict[Promised, Fires]
    wrong: dict[Promised, list[Disagreement]]

    def cells(self, promised: Promised, grade: str) -> tuple[str, str]:
        """What was due, and what was seen."""
        is_wrong = any(each.grade == grade for each in self.wrong[promised])
        due, seen = (fires[promised].get(grade) for fires in (self.due, self.seen))
        return self._cell(due), self._cell(seen) + ("!" if is_wrong else "")

    def _cell(self, fired: Fired | None) -> str:
        if fired is None:
            return "silent"
        over_at = self.scenario.trouble_at + sum(each.seconds for each in self.scenario.trouble)
        begins = f"after {_duration(fired.first - self.scenario.trouble_at)}"
        if fired.last > self.traffic.seconds - EVALUATION_SECONDS:
            return f"{begins}, still fires"
        return f"{begins}, ends {_duration(fired.last + 1 - over_at)} after"


def replay_own(scenario: Scenario, promises: Sequence[Promised] = PROMISES) -> Replay:
    """Before the control plane's arithmetic."""
    traffic = traffic_of(scenario.phases)
    since = scenario.trouble_at - HOUR
    seen = {each: by_own_counts(traffic, each, since) for each in promises}
    return _replay(scenario, traffic, seen, OwnCounts(scenario=scenario))


def replay_prometheus(scenario: Scenario, promises: Sequence[Promised] = PROMISES) -> Replay:
    """Before our rules."""
    traffic = traffic_of(scenario.phases)
    seen = dict(by_prometheus(scenario, traffic, promises))
    return _replay(scenario, traffic, seen, Prometheus(scenario=scenario))


def _replay(
    scenario: Scenario,
    traffic: Traffic,
    seen: dict[Promised, Fires],
    watcher: Prometheus | OwnCounts,
) -> Replay:
    due = {each: should_fire(traffic.total, traffic.bad, each) for each in seen}
    wrong = {each: list(disagreements(due[each], seen[each], watcher)) for each in seen}
    return Replay(scenario=scenario, traffic=traffic, due=due, seen=seen, wrong=wrong)


def rows(own: Replay, prometheus: Replay) -> Iterator[tuple[str, ...]]:
    """Of one scenario: each grade that should fire or did, and one line where none does."""
    is_silent = True
    for promised in PROMISES:
        for grade in GRADES:
            cells = (*own.cells(promised, grade), *prometheus.cells(promised, grade))
            if set(cells) != {"silent"}:
                is_silent = False
                yield own.scenario.name, promised.name, grade, *cells
    if is_silent:
        yield own.scenario.name, "each", "each", *("silent",) * 4


def _duration(seconds: int) -> str:
    sign, whole = "-" if seconds < 0 else "", abs(seconds)
    hours, minutes, rest = whole // HOUR, whole % HOUR // MINUTE, whole % MINUTE
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return sign + (" ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s")


def _markdown(table: Sequence[Sequence[str]]) -> str:
    lines = [_HEAD, ["---"] * len(_HEAD), *table]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Print a table, and exit with 1 where anything was not as it is due."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", help="scenarios whose name holds one of these words")
    parser.add_argument("--history-hours", type=float, default=1, help="before promtool")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    asked = parser.parse_args()
    mature = scenarios(3 * DAY, _AFTER_OWN)
    young = scenarios(round(asked.history_hours * HOUR), _AFTER_PROMETHEUS)
    table: list[tuple[str, ...]] = []
    for long, short in zip(mature, young, strict=True):
        if asked.only and not any(word in long.name for word in asked.only):
            continue
        found = list(rows(replay_own(long), replay_prometheus(short)))
        table += found
        print(_markdown(found), end="", flush=True)
    if asked.markdown is not None:
        asked.markdown.write_text(f"{_INTRODUCTION}\n{_markdown(table)}", encoding="utf-8")
    sys.exit(any("!" in cell for row in table for cell in row))


_INTRODUCTION = """\
# When alerts fire, and when they end

Made by `.venv/bin/python ops/bench/bench_alerting.py --markdown ops/bench/alerting.md`: traffic of
which every request is known, before an independent calculation (*due*), the control plane's own
counts, and Prometheus with our rules (promtool's evaluator, scrapes every 15 s). Seconds after the
trouble began, and after it was over. *Young*: with one hour of history, in which windows of days
hold an hour alone, so that they fire sooner; otherwise with three days.

May differ from what is due: the control plane by a minute and an evaluation (90 s), its windows of
days by an hour's share of them more; Prometheus by a scrape and two evaluations (75 s), its windows
of days, which are sums of five minutes, by six minutes more. What nobody scraped is seen when
scrapes return. What differs by more is marked `!`.

The four grades are those of `controlplane/slo/alert_windows.py`; twenty requests a second, of which
one in five thousand is bad, where nothing else is said.
"""


if __name__ == "__main__":
    main()
