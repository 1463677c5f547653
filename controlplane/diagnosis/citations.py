"""The figures that stand in sentences of evidence, found again where they were read.

Sentences have names and figures as they stand at their source (`citing`), so that what stands
behind a name leads back to the reading or the fact. Programs get signal, value, unit, source, time
and age of each, whichever rule wrote the sentence and however. What was reckoned of them, a rate or
a share, is of no source and is not among them.
"""

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from controlplane.diagnosis import citing
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.repeating import repeated_in
from controlplane.diagnosis.verdict import Cited, Told, Verdict
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_BETWEEN = (", ", " -> ")
_WORDS = re.compile(r"\S+(?: \S+){0,4}")
"""`23,`, `95.9 % in`, `1100 to 1600 tokens/s`: nothing that is read as a figure is longer."""
_ENDS = ",;:.)"


@dataclass(frozen=True)
class _Shown:
    """One course of a name: a series, or what was told under one key."""

    like: Cited
    """Signal, unit, source, name and place of each of its readings."""
    readings: tuple[Reading, ...]

    @cached_property
    def by_raw(self) -> Mapping[str, Sequence[int]]:
        """Where among its readings each is that was written so."""
        by_raw: dict[str, list[int]] = {}
        for place, reading in enumerate(self.readings):
            by_raw.setdefault(reading.raw, []).append(place)
        return by_raw

    def newest(self, raw: str, before: int) -> int | None:
        """Where, before that place, it was last written so."""
        places = self.by_raw.get(raw, ())
        number = bisect.bisect_left(places, before)
        return places[number - 1] if number else None


def with_citations(window: Window, verdict: Verdict) -> Verdict:
    """`verdict` with all figures of its evidence cited, those that the rule cited itself first, and
    with all that it repeats in words. A rule may have looked at a stretch: ages are as of the end
    of `window`."""
    own = (replace(each, age_seconds=window.end - each.at) for each in verdict.cited)
    cited = {_same(each): each for each in own}
    for each in cited_in(window, verdict.evidence):
        cited.setdefault(_same(each), each)
    told = dict.fromkeys((*verdict.told, *told_in(window, verdict.evidence)))
    return replace(verdict, cited=tuple(cited.values()), told=tuple(told))


def cited_in(window: Window, sentences: Iterable[str]) -> tuple[Cited, ...]:
    """All figures of all sentences, each once."""
    cited: dict[tuple[object, ...], Cited] = {}
    for sentence in sentences:
        is_beside = sentence.startswith(citing.BESIDES)
        for each in figures_in(window, sentence):
            cited.setdefault(_same(each), replace(each, is_beside=is_beside))
    return tuple(cited.values())


def told_in(window: Window, sentences: Iterable[str]) -> tuple[Told, ...]:
    """All that they repeat in words, each once."""
    told = (each for sentence in sentences for each in repeated_in(window, sentence))
    return tuple(dict.fromkeys(told))


def figures_in(window: Window, sentence: str) -> Iterator[Cited]:
    """All figures behind names of `window` in a sentence, the older of one name first."""
    for name in _names(window):
        if name not in sentence:
            continue
        for place in _places_of(name, sentence):
            yield from _surest(window, _courses(window, name), sentence, place)


def _same(cited: Cited) -> tuple[object, ...]:
    return cited.name, cited.place, cited.raw, cited.at


def _names(window: Window) -> tuple[str, ...]:
    def work() -> tuple[str, ...]:
        series = (each.origin.name for each in window.series)
        facts = (fact.key for fact in window.facts if fact.value is not None)
        return tuple(dict.fromkeys((*series, *facts)))

    return window.once("names that are cited", work)


def _places_of(name: str, sentence: str) -> Iterator[int]:
    """Where its figures begin."""
    start = sentence.find(name)
    while start >= 0:
        end = start + len(name)
        is_whole = start == 0 or not (sentence[start - 1].isalnum() or sentence[start - 1] in "_:.")
        if is_whole and sentence[end : end + 1] == " ":
            yield end + 1
        start = sentence.find(name, end)


def _courses(window: Window, name: str) -> tuple[_Shown, ...]:
    """Of each replica or rank, of all together, and of what was told; that of all is the first."""

    def work() -> tuple[_Shown, ...]:
        own = [each for each in window.series if each.origin.name == name]
        every = (_all_of(window, signal) for signal in dict.fromkeys(each.signal for each in own))
        named = (each for each in every if each is not None and each.origin.name == name)
        shown = [_of_series(window, each) for each in (*named, *own)]
        return (*shown, *_of_facts(window, name))

    return window.once(("courses that are cited", name), work)


def _all_of(window: Window, signal: Signal) -> Series | None:
    return window.find(signal) if len(window.all_series(signal)) > 1 else None


def _of_series(window: Window, series: Series) -> _Shown:
    return _Shown(citing.cited_series(window, series), series.readings)


def _of_facts(window: Window, key: str) -> Iterator[_Shown]:
    facts = [fact for fact in window.facts if fact.key == key and fact.value is not None]
    like = None if not facts else citing.cited_fact(window, facts[-1])
    if like is not None:
        told = (Reading(fact.at, fact.value or 0.0, fact.raw) for fact in facts)
        yield _Shown(like, tuple(told))


def _surest(
    window: Window, courses: Sequence[_Shown], sentence: str, place: int
) -> tuple[Cited, ...]:
    """By the course that has most of what stands there: one of all replicas, or one that the
    sentence names; any other only where these have nothing of it."""
    named = [each for each in courses if each.like.place and _names_place(sentence, each)]
    of_all = [each for each in courses if not each.like.place]
    for some in ((*named, *of_all), courses):
        found = max((_figures(window, each, sentence, place) for each in some), key=len, default=())
        if found:
            return found
    return ()


def _names_place(sentence: str, course: _Shown) -> bool:
    """Whole: `chat-1` is not named by `chat-10`."""
    place = re.escape(course.like.place or "")
    return re.search(rf"(?<![\w.-]){place}(?![\w-])", sentence) is not None


def _figures(window: Window, course: _Shown, sentence: str, place: int) -> tuple[Cited, ...]:
    raws = tuple(_raws(course, sentence, place))
    return tuple(
        citing.cited_reading(window, course.like, reading) for reading in _read(course, raws)
    )


def _raws(course: _Shown, sentence: str, place: int) -> Iterator[str]:
    """As they stand one behind the other from there on."""
    while (raw := _raw_at(course, sentence, place)) is not None:
        yield raw
        place += len(raw)
        between = next((each for each in _BETWEEN if sentence.startswith(each, place)), None)
        if between is None:
            return
        place += len(between)


def _raw_at(course: _Shown, sentence: str, place: int) -> str | None:
    found = _WORDS.match(sentence, place)
    words = [] if found is None else found[0].split(" ")
    for number in range(len(words), 0, -1):
        text = " ".join(words[:number])
        for raw in (text, text.rstrip(_ENDS)):
            if raw and course.newest(raw, len(course.readings)) is not None:
                return raw
    return None


def _read(course: _Shown, raws: Sequence[str]) -> Iterable[Reading]:
    """The readings that were written so: those that a course shows, or else the newest in that
    order."""
    for shown in (citing.shown(course.readings), (course.readings[0], course.readings[-1])):
        if len(raws) > 1 and tuple(each.raw for each in shown) == tuple(raws):
            return shown
    found: list[Reading] = []
    place = len(course.readings)
    for raw in reversed(raws):
        here = course.newest(raw, place)
        here = course.newest(raw, len(course.readings)) if here is None else here
        if here is not None:
            found.append(course.readings[here])
            place = here
    return reversed(found)
