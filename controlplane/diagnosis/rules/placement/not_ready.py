"""Requests are sent to a replica that does not serve yet: others answer theirs, it answers none."""

import re
from dataclasses import dataclass, field

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, says_no
from controlplane.diagnosis.window import Window

_KIND = r"(pod|worker|replica|server|instance|node|backend|endpoint|engine)s?"
_NAMED = re.compile(rf"\b(?P<kind>{_KIND}) (?P<name>[a-z]|[a-z]?\d+)\b")
_BY_AGE = re.compile(
    r"\b(?P<name>new|old|first|second|third|fresh|added|ready|unready|loading|starting) "
    rf"(?P<kind>{_KIND})\b"
)
_ANSWERED = re.compile(
    r"\b(answer(s|ed)|responses?|responded|complet(ed|ions?)|finished|succe\w+|served|2xx|ok)\b"
)
_SENT = re.compile(r"\b(sent|routed|requests?|dispatched|forwarded|assigned|attempts)\b")
_READY = re.compile(r"\b(ready|readiness|probe|health\w*|state|status|phase)\b")
_NOT_READY = re.compile(
    r"\b(fail\w*|not|false|no|503|connection refused|load(ing)?|start(ing|up)|initiali[sz]ing"
    r"|warm(ing)?( ?up)?|pending|unready|(container ?)?creating)\b",
    re.IGNORECASE,
)
_STARTING = re.compile(
    r"\b(new|fresh|added|load(ing)?|start(ing|up)|initiali[sz]ing|warm(ing)?( ?up)?|pending"
    r"|(container ?)?creating)\b",
    re.IGNORECASE,
)
_MORE = (
    r"\b(replicas?|pods?|workers?|instances?|servers?|hpa|scaled?)\b.*\b\d+ ?(->|to|=>) ?\d+"
    r"|\bscal(ed?|ing)[ -](up|out)\b|\b(added|new) (an? )?(replica|pod|worker|instance|server)"
)
_LOADS = r"checkpoint shards|load weight begin|starting to load model|loading (model|weights)"
_FEWEST = 5.0
"""Requests: fewer may have come just now."""
_SERVES = 0.5
"""Of what was sent there: a replica that works."""


@dataclass(slots=True)
class _Place:
    """What is told of one replica."""

    name: str
    sent: Fact | None = None
    answered: Fact | None = None
    not_ready: list[Fact] = field(default_factory=list)


def sent_before_ready(argument: Argument, window: Window) -> Confidence | None:
    """CERTAIN where that replica starts and is told not to be ready; LIKELY where its log alone
    says that it loads. One that was ready before is another trouble."""
    places = _places(window)
    serving = [place for place in places if _share(place) >= _SERVES]
    for place in places if serving else ():
        if (number_of(place.sent) or 0.0) < _FEWEST or number_of(place.answered) != 0:
            continue
        loads = _lines_of(window, place.name)
        is_named = _NOT_READY.search(place.name) is not None
        if not loads and not is_named and not (place.not_ready and _starts(window, place)):
            continue
        argument.fact(place.sent)
        argument.fact(place.answered, "none")
        for fact in place.not_ready:
            argument.fact(fact, "it does not serve yet")
        for line in loads[-1:]:
            argument.says(line.strip()[:200])
        for other in serving:
            argument.fact(other.sent)
            argument.fact(other.answered)
        for change in window.changes:
            argument.change(change)
        argument.against("engine.hung: it does not serve yet, and was never asked to step")
        argument.against("startup.slow and queue.overload: it was given requests before its time")
        return Confidence.CERTAIN if place.not_ready or is_named else Confidence.LIKELY
    return None


def _starts(window: Window, place: _Place) -> bool:
    """It is new, or was never ready yet: a replica that hangs fails its probe as well."""
    told = (f"{plain(fact.key)} {fact.raw}" for fact in place.not_ready)
    return any(_STARTING.search(text) for text in (place.name, *told)) or bool(
        window.changes_with(_MORE)
    )


def _share(place: _Place) -> float:
    sent, answered = number_of(place.sent), number_of(place.answered)
    return answered / sent if sent and answered is not None else 0.0


def _places(window: Window) -> list[_Place]:
    places: dict[str, _Place] = {}
    for fact in window.facts:
        key = plain(fact.key)
        name = plain(fact.part) if fact.part else _name_in(key)
        if name is not None:
            _take(places.setdefault(name, _Place(name)), fact, key)
    return list(places.values())


def _name_in(key: str) -> str | None:
    """`pod b` of `sent to pod b`, `replica new` of `new replica ready`."""
    found = _NAMED.search(key) or _BY_AGE.search(key)
    return None if found is None else f"{found['kind'].rstrip('s')} {found['name']}"


def _take(place: _Place, fact: Fact, key: str) -> None:
    is_count = number_of(fact) is not None
    if is_count and _ANSWERED.search(key):
        place.answered = fact
    elif is_count and _SENT.search(key):
        place.sent = fact
    elif _READY.search(key) and (says_no(fact) or _NOT_READY.search(fact.raw)):
        place.not_ready.append(fact)


def _lines_of(window: Window, name: str) -> tuple[str, ...]:
    """Of the log of that replica, those of loading its weights."""
    written = "[-_. ]?".join(re.escape(word) for word in name.split())
    return window.lines_with(rf"\b{written}\b.*({_LOADS})")
