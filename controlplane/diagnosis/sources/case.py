"""A case: what could be seen of an incident, in one YAML file, and what is known to be the answer.

The format is that of `tests/incidents/README.md`. All values are taken as they are written, so that
a finding cites `0.70` and not `0.7`. Whoever writes a case of their own may leave out everything
but `input`.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.sources.case_bounds import why_too_large, why_too_much
from controlplane.diagnosis.sources.changes import change_of
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.log import LogReader
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.quantity import number_of
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.window import Doubt, DoubtKind, EngineName, Window
from dataplane.engine_metrics.exposition import NotMetricsError


class CaseError(ValueError):
    """A case that cannot be read."""

    def __init__(self, place: str, what: str, remedy: str) -> None:
        self.place = place
        self.what = what
        self.remedy = remedy
        super().__init__(f"{place}: {what}; {remedy}")


class PartKind(StrEnum):
    """What a part of a case's input can be."""

    LOG = "log"
    METRICS = "metrics"
    GATEWAY = "gateway"
    CHANGE = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The confirmed answer."""

    mechanism: Mechanism
    confidence: Confidence | None
    """None: the case does not say, as for `cannot_tell`."""
    evidence: tuple[str, ...]
    excluded: tuple[Mechanism, ...]
    """Those that must not be named as the cause."""
    needs: tuple[str, ...]
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case, ready to be judged."""

    id: str
    engine: EngineName | None
    window: Window
    expect: Expectation | None
    """None where a case asks and does not answer."""
    filled_in: tuple[str, ...] = ()
    """What its writer completed, on which alone no rule may hang."""


def read_case(text: str, place: str) -> Case:
    """Reads one case. Raises CaseError, which names `place` and the part and what to do."""
    try:
        return _read(text, place)
    except RecursionError as error:
        raise CaseError(place, "it is nested too deeply, or in itself", "write it flat") from error


def _read(text: str, place: str) -> Case:
    document = _document(text, place)
    engine = _engine(document.get("engine"), place)
    return Case(
        id=_text(document.get("id")) or place,
        engine=engine,
        window=_window(document, engine, place),
        expect=_expectation(document.get("expect"), place),
        filled_in=tuple(_texts(document.get("filled_in"))),
    )


def is_case(text: str) -> bool:
    """Whether `text` looks like a case: YAML with `input` at its left edge."""
    return any(line.startswith("input:") for line in text.splitlines())


# --- input --------------------------------------------------------------------------------
def _window(document: Mapping[str, object], engine: EngineName | None, place: str) -> Window:
    given = document.get("input")
    if not isinstance(given, list) or not given:
        raise CaseError(
            place, "it has no input", "list parts under `input`, each with a kind and its content"
        )
    log = LogReader(place)
    log_at: float | None = None
    snapshots: list[Snapshot] = []
    parts: list[Part] = []
    for number, part in enumerate(given, 1):
        where = f"{place}, part {number} of input"
        fields = _fields(part, where)
        at = _at(fields, where)
        match _kind(fields, where):
            case PartKind.LOG:
                log.read(_content(fields, "text", where).split("\n"))
                log_at = at if log_at is None else log_at
            case PartKind.METRICS:
                snapshots.append(Snapshot(at=at, text=_content(fields, "text", where), place=where))
            case PartKind.GATEWAY:
                parts.append(Part(facts=facts_of(_fields(fields.get("values"), where), at)))
            case PartKind.CHANGE:
                what = _content(fields, "what", where)
                parts.append(Part(changes=(change_of(what, at),)))
    if snapshots:
        parts.insert(0, _metrics(snapshots))
    if log_at is not None:
        parts.insert(0, log.finish(first_at=log_at))
    parts.append(Part(doubts=tuple(_unknown_keys(document, given, place))))
    return join(parts, engine)


_KEYS = frozenset({"id", "report", "engine", "seen", "input", "expect", "filled_in"})
_PART_KEYS = frozenset({"kind", "at_s", "text", "values", "what"})


def _unknown_keys(
    document: Mapping[str, object], given: Iterable[object], place: str
) -> Iterator[Doubt]:
    """Keys that nobody reads: one that is misspelt would be missed in silence."""
    yield from _strange(document, _KEYS, place)
    for number, part in enumerate(given, 1):
        if isinstance(part, Mapping):
            yield from _strange(part, _PART_KEYS, f"{place}, part {number} of input")


def _strange(fields: Mapping[str, object], valid: frozenset[str], where: str) -> Iterator[Doubt]:
    for key in sorted(set(map(str, fields)) - valid):
        begun = sorted(each for each in valid if each.startswith(key))
        near = begun or difflib.get_close_matches(key, valid, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        yield Doubt(
            kind=DoubtKind.UNREADABLE,
            name=where,
            what=f"passed over: {key} is no key of it; {hint}Valid: {', '.join(sorted(valid))}",
        )


def _metrics(snapshots: list[Snapshot]) -> Part:
    try:
        return series_of(snapshots)
    except NotMetricsError as error:
        raise CaseError(error.place, f"it is {error.what}", error.remedy) from error


def _kind(fields: Mapping[str, object], where: str) -> PartKind:
    kind = _text(fields.get("kind"))
    if not kind:
        near = difflib.get_close_matches("kind", sorted(map(str, fields.keys() - _PART_KEYS)), n=1)
        meant = f"{near[0]!r} is no key of it; " if near else ""
        valid = ", ".join(each.value for each in PartKind)
        raise CaseError(where, "it has no kind", f"{meant}write `kind:` and one of {valid}")
    try:
        return PartKind(kind)
    except ValueError:
        valid = ", ".join(each.value for each in PartKind)
        raise CaseError(where, f"there is no kind {kind!r}", f"one of {valid}") from None


def _at(fields: Mapping[str, object], where: str) -> float:
    text = _text(fields.get("at_s"))
    if not text:
        return 0.0
    at = number_of(text)
    if at is None:
        raise CaseError(where, f"at_s is {text!r}", "write seconds as a number")
    return at


def _content(fields: Mapping[str, object], key: str, where: str) -> str:
    content = _text(fields.get(key))
    if not content.strip():
        raise CaseError(where, f"it has no {key}", f"put its content under `{key}`")
    return content


# --- the rest -----------------------------------------------------------------------------
def _document(text: str, place: str) -> Mapping[str, object]:
    _refuse(why_too_large(text), place)
    try:
        document: object = YAML(typ="base", pure=True).load(text)
    except YAMLError as error:
        raise CaseError(
            place, f"it is no YAML: {_first_line(error)}", "correct it there"
        ) from error
    _refuse(why_too_much(document), place)
    if not isinstance(document, dict):
        raise CaseError(place, "it is no case", "a case is a table with `input` in it")
    return document


def _refuse(why: str | None, place: str) -> None:
    if why is not None:
        raise CaseError(place, why, "give whole logs and pages as files of their own")


def _first_line(error: YAMLError) -> str:
    return " ".join(str(error).split())


def _engine(given: object, place: str) -> EngineName | None:
    if given is None or given == "":
        return None
    if isinstance(given, str):
        return EngineName(name=given)
    fields = _fields(given, f"{place}, engine")
    return EngineName(name=_text(fields.get("name")), version=_text(fields.get("version")) or None)


def _expectation(given: object, place: str) -> Expectation | None:
    if given is None:
        return None
    where = f"{place}, expect"
    fields = _fields(given, where)
    confidence = _text(fields.get("confidence"))
    return Expectation(
        mechanism=_one_of(Mechanism, _text(fields.get("mechanism")), "mechanism", where),
        confidence=_confidence(confidence, where) if confidence else None,
        evidence=tuple(_texts(fields.get("evidence"))),
        excluded=tuple(
            _one_of(Mechanism, name, "mechanism", where) for name in _texts(fields.get("not"))
        ),
        needs=tuple(_texts(fields.get("needs"))),
        remedy=_text(fields.get("remedy")),
    )


def _confidence(text: str, where: str) -> Confidence:
    by_word = {each.word: each for each in Confidence}
    if text not in by_word:
        raise CaseError(where, f"there is no confidence {text!r}", f"one of {', '.join(by_word)}")
    return by_word[text]


_Valid = TypeVar("_Valid", bound=StrEnum)


def _one_of(valid: type[_Valid], text: str, what: str, where: str) -> _Valid:
    try:
        return valid(text)
    except ValueError:
        names = ", ".join(each.value for each in valid)
        raise CaseError(where, f"there is no {what} {text!r}", f"one of {names}") from None


def _fields(given: object, where: str) -> Mapping[str, object]:
    if not isinstance(given, dict):
        raise CaseError(where, "a table is wanted here", "write it as `key: value`")
    return given


def _text(given: object) -> str:
    return given if isinstance(given, str) else ""


def _texts(given: object) -> Iterable[str]:
    if isinstance(given, str):
        return (given,) if given else ()
    return [_text(each) for each in given] if isinstance(given, list) else ()
