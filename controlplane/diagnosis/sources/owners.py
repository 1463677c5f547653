"""Whose each file is: those of two engines are two troubles, and one window of both is none.

The figures of one engine would speak for the failure of the other.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controlplane.diagnosis.sources.endpoint import OUR_OWN
from controlplane.diagnosis.sources.input_error import InputError
from controlplane.diagnosis.window import Doubt, DoubtKind

_BESIDE_ENGINES = frozenset({"pilothouse", *OUR_OWN.values()})
"""Stand before or around an engine, and tell of the same requests."""
_BEHIND = {"tgi": frozenset({"trtllm", "llama.cpp"})}
"""Servers of one that run the other inside."""
_NAMED = 3
"""Files of each in a message."""


@dataclass(slots=True)
class Owners:
    """Takes what each file shows of its engine."""

    _places: dict[str, list[str]] = field(default_factory=dict)
    _unsure: dict[str, str] = field(default_factory=dict)
    """Engine by place."""

    def take(self, engine: str, place: str) -> None:
        """`place` is surely of `engine`."""
        places = self._places.setdefault(engine, [])
        if engine not in _BESIDE_ENGINES and place not in places:
            places.append(place)

    def note(self, engine: str, place: str) -> None:
        """`place` may be of `engine`: few of its lines are."""
        self._unsure[place] = engine

    def doubts(self) -> Iterator[Doubt]:
        """Of files that seem to be of another engine than the others surely are."""
        sure = {engine for engine, places in self._places.items() if places}
        for place, engine in self._unsure.items():
            if sure and engine not in sure | _BESIDE_ENGINES:
                yield Doubt(
                    kind=DoubtKind.UNREADABLE,
                    name=place,
                    what=f"it reads like {engine}, and the other files are of "
                    f"{' and '.join(sorted(sure))}: if so, diagnose it alone",
                )

    def refuse_strangers(self) -> None:
        """Raises InputError where files, or one of them, are of several engines."""
        apart = {engine: places for engine, places in self._places.items() if places}
        for server, inner in _BEHIND.items():
            if server in apart:
                apart = {engine: apart[engine] for engine in apart if engine not in inner}
        if len(apart) < 2:
            return
        _refuse_mixed(apart)
        named = [f"{_listed(places)} of {engine}" for engine, places in apart.items()]
        first = next(iter(apart.values()))[0]
        raise InputError(
            first,
            f"and others are of several engines: {', '.join(named)}",
            "the figures of one say nothing of the other: diagnose those of each engine alone",
        )


def _refuse_mixed(apart: Mapping[str, list[str]]) -> None:
    """Raises InputError where one file is of several of them."""
    for place in itertools.chain.from_iterable(apart.values()):
        engines = [engine for engine, places in apart.items() if place in places]
        if len(engines) > 1:
            raise InputError(
                place,
                f"holds figures of several engines: {' and '.join(sorted(engines))}",
                "the figures of one say nothing of the other: save what each engine's own "
                "/metrics says in a file of its own, and diagnose that alone",
            )


def _listed(places: list[str]) -> str:
    more = len(places) - _NAMED
    return ", ".join(places[:_NAMED]) + (f" and {more} more" if more > 0 else "")
