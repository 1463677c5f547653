"""Doubts about names: renamed between versions, told twice, expected and not there, gone."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.alias import AliasTable
from dataplane.engine_metrics.gathering import Gathered
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.targets import canonical, is_known

_SAME_SHARE = 0.01
_SHOWN = 4


class At(NamedTuple):
    """What was gathered at one time."""

    at: float
    gathered: Gathered


def renamed(told: Sequence[At]) -> Iterable[Doubt]:
    """Of one series: under a name of another version, or by a collector on the way."""
    at, last = told[-1]
    alias, name = last.known.alias, last.name
    names = list(dict.fromkeys(each.gathered.name for each in told))
    if len(names) > 1:
        yield Doubt(
            kind=DoubtKind.RENAMED,
            name=name,
            what=f"{alias.signal} is told as {' and then as '.join(names)}: the engine was "
            "replaced by another version in between",
            at=next(each.at for each in told if each.gathered.name == name),
        )
    if alias.until is not None:
        yield Doubt(
            kind=DoubtKind.RENAMED,
            name=name,
            what=f"{name} is a name that versions from {alias.until} on no longer have: "
            "dashboards, alerts and autoscalers that ask for it find nothing after an upgrade",
            at=at,
        )
    elif name != alias.exported:
        yield Doubt(
            kind=DoubtKind.RENAMED,
            name=name,
            what=f"{name} is {alias.exported} under a name that something on the way made",
            at=at,
        )


def disagreeing(told: Sequence[At]) -> Iterable[Doubt]:
    """Of one series: an older name on the same page that says something else."""
    for at, gathered in told:
        for other in gathered.superseded:
            if other.known.alias.until is None or gathered.value is None or other.value is None:
                continue
            if abs(other.value - gathered.value) > _SAME_SHARE * max(1e-9, abs(gathered.value)):
                yield Doubt(
                    kind=DoubtKind.DUPLICATE,
                    name=gathered.name,
                    what=f"{gathered.name} says {gathered.value:g} where {other.name}, its older "
                    f"name, says {other.value:g}; the former is used",
                    at=at,
                )
                return


def missing(
    table: AliasTable, found: frozenset[Signal], names: frozenset[str], at: float
) -> Iterable[Doubt]:
    """What a whole page of this engine should have and has not. Of an extract nothing is said."""
    own = {name for name in names if canonical(name).startswith(table.prefixes)}
    if len(own) < table.whole_from:
        return
    strangers = sorted(name for name in own if not is_known(name))
    for signal in sorted(table.expected - found):
        expected = next(alias.exported for alias in table.aliases if alias.signal is signal)
        similar = difflib.get_close_matches(expected, strangers, n=1)
        hint = f"; {similar[0]} is there, which is not known" if similar else ""
        yield Doubt(
            kind=DoubtKind.MISSING,
            name=expected,
            what=f"{expected} is not among the {len(own)} series of {table.engine or 'this page'}"
            f"{hint}",
            at=at,
        )


def vanished(series: Sequence[Series], moments: Sequence[float]) -> Iterable[Doubt]:
    """Series that were there and are not on the later pages of the same endpoint."""
    if len(moments) < 2:
        return
    gone = [each for each in series if each.last.at < moments[-1]]
    by_moment: Mapping[float, list[Series]] = {}
    for each in gone:
        by_moment = {**by_moment, each.last.at: [*by_moment.get(each.last.at, []), each]}
    for moment, lost in by_moment.items():
        names = sorted({each.origin.name for each in lost})
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield Doubt(
            kind=DoubtKind.MISSING,
            name=names[0],
            what=f"no longer on the page, and was before: {', '.join(names[:_SHOWN])}{more}",
            at=moment,
        )
