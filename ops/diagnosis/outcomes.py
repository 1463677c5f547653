"""What the diagnosis says of a trial, look by look."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.sources.simulated import window_of
from dataplane.simulation.observer.lines import Counted, Logged, Scraped, Seen
from ops.diagnosis.fleets import observe
from ops.diagnosis.trials import LAST_SECONDS, STEP_SECONDS, WINDOW_SECONDS, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One answer."""

    seconds: float
    """Since the onset."""
    mechanism: Mechanism
    second: Mechanism | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All answers about one run of one trial."""

    trial: str
    level: int
    seed: int
    dialect: str
    right: tuple[Mechanism, ...]
    is_seen: bool
    """This dialect exports something of it."""
    looks: tuple[Look, ...]

    @property
    def last(self) -> Look:
        """The one that counts."""
        return self.looks[-1]

    @property
    def is_right(self) -> bool:
        """The first mechanism of the last look."""
        return self.last.mechanism in self.right

    @property
    def detected_after(self) -> float | None:
        """Seconds of signal from the onset until it was first named right; None: never."""
        return next((look.seconds for look in self.looks if look.mechanism in self.right), None)


def judge(trial: Trial, level: int, seed: int, dialect: str, rules: Sequence[Rule]) -> Outcome:
    """Simulate it, and look at it every ten seconds from its onset on."""
    seen = [each for each in observe(trial, level, seed, dialect) if _counts(each, trial)]
    looks = []
    for step in range(1, round(LAST_SECONDS / STEP_SECONDS) + 1):
        at = trial.onset + step * STEP_SECONDS
        window = window_of([each for each in seen if at - WINDOW_SECONDS <= each.at <= at])
        looks.append(_look(step * STEP_SECONDS, diagnose(window, rules)))
    return Outcome(
        trial=trial.name,
        level=level,
        seed=seed,
        dialect=dialect,
        right=trial.right,
        is_seen=trial.is_seen_by(dialect, level),
        looks=tuple(looks),
    )


def _counts(seen: Seen, trial: Trial) -> bool:
    return isinstance(seen, Scraped | Counted) or (trial.reads_logs and isinstance(seen, Logged))


def _look(seconds: float, said: Diagnosis) -> Look:
    likely = [each for each in said.findings if each.confidence >= Confidence.LIKELY]
    return Look(
        seconds=seconds,
        mechanism=said.mechanism,
        second=likely[1].mechanism if len(likely) > 1 else None,
        evidence=likely[0].verdict.evidence[:2] if likely else said.needs[:2],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Of many outcomes."""

    num_faults: int
    share_right: float
    """Of runs of faults that the dialect shows something of."""
    num_windows: int
    share_false: float
    """Of looks at fleets that are well: those that name something that is wrong."""
    share_healthy: float
    """Of those looks: those that say `healthy`."""
    median_detection_seconds: float | None
    """Of all those faults; None where less than half are ever named right."""
    wrong_where_unseen: float
    """Of runs whose dialect shows nothing: the share that names something else as the cause."""


def summarize(outcomes: Sequence[Outcome]) -> Summary:
    """All figures of the table."""
    faults = [each for each in outcomes if each.right != (Mechanism.HEALTHY,)]
    shown = [each for each in faults if each.is_seen]
    unseen = [each for each in faults if not each.is_seen]
    looks = [look for each in outcomes if each not in faults for look in each.looks]
    times = sorted(
        float("inf") if each.detected_after is None else each.detected_after for each in shown
    )
    middle = times[len(times) // 2] if times else float("inf")
    return Summary(
        num_faults=len(shown),
        share_right=_share(each.is_right for each in shown),
        num_windows=len(looks),
        share_false=_share(look.mechanism not in QUIET for look in looks),
        share_healthy=_share(look.mechanism is Mechanism.HEALTHY for look in looks),
        median_detection_seconds=None if middle == float("inf") else middle,
        wrong_where_unseen=_share(
            each.last.mechanism not in (*QUIET, *each.right) for each in unseen
        ),
    )


QUIET = (Mechanism.HEALTHY, Mechanism.CANNOT_TELL)
"""Answers that name nothing wrong."""


def _share(found: Iterable[bool]) -> float:
    listed = list(found)
    return sum(listed) / len(listed) if listed else 0.0


def matrix(outcomes: Sequence[Outcome]) -> Mapping[str, Mapping[str, int]]:
    """How often each trial got each answer, where its dialect shows something of it."""
    rows: dict[str, dict[str, int]] = {}
    for each in outcomes:
        if each.is_seen:
            row = rows.setdefault(each.trial, {})
            row[each.last.mechanism] = row.get(each.last.mechanism, 0) + 1
    return rows
