"""How a client sends, against what it means to send."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.callers.client_limits import LOCAL, NOT_LOCAL
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.means import reckoned
from controlplane.diagnosis.views.told import number_of, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_LESS = 0.7
"""Of what was to be sent: a generator that keeps its plan is nearer."""
_OFFERED = (
    r"(requests?|streams|connections)( \w+)* (seen|received|at|by)( the)? (server|engine|gateway)"
    r"|(established|open|active|tcp) (connections|sockets)|(connections|sockets) (established|open)"
    r"|(client|script|tester|bench\w*)( \w+)* (connections|sockets)( used)?$"
)
_NOT_OFFERED = r"max|limit|asked|wanted|proxy|gateway|router|ingress|balancer|pool size|idle"
"""What somebody between the two holds open is no doing of the client's."""
_SENDERS = (
    r"^(simulated|virtual|concurrent|parallel|bench\w*|client|load|test|tool|wanted) "
    r"(tabs|users|clients|virtual users|vus|threads|concurrency)$"
    r"|^(tabs|vus|concurrency|workers sent)$"
    r"|\b(client|load|bench\w*|test\w*|script|generator|caller)\b( \w+)* (tasks|coroutines|threads"
    r"|greenlets|goroutines|futures|workers|users|vus|fibers|jobs|concurren\w*|parallel\w*)"
    r"( (started|launched|running|requested|wanted|asked|set|configured|target|level|in all))?$"
    r"|\b(requests?|tasks|coroutines|threads|calls) (started|launched|issued|fired|spawned|created)"
    r"( at once)?( by (the )?(client|script|tool|test|caller|bench\w*))?( at once)?$"
)
"""Who is to send all the time. Users and clients may have nothing to ask."""
_HELD_BACK = (
    r"(not (yet )?|un)sent|(queued|waiting|pending|stuck|blocked)( \w+)* (client|generator|pool)"
    r"|(client|generator|pool) (side )?(queue|backlog|waiting|pending)"
    r"|waiting for (a )?connection|dropped iterations|missed (sends|arrivals|slots)|late sends"
)
_NOT_HELD_BACK = r"bytes|chunk|token|stream|buffer|frame|server|engine|write|flight"
"""What was sent and is not in flight any more was answered."""
_PLANNED = r"target|planned|wanted|intended|configured|asked|desired|schedule|nominal"
_ACHIEVED = r"achieved|actual|real|sent|effective|measured|observed|delivered"


def unkept(argument: Argument, window: Window) -> int:
    """It was to send more than it sent."""
    planned = told_number(window, rf"({_PLANNED})\b.*(rps|rate|qps|concurren|requests|users|per s)")
    sent = told_number(window, rf"({_ACHIEVED})\b.*(rps|rate|qps|concurren|requests|users|per s)")
    wanted, was = number_of(planned), number_of(sent)
    if (
        sent is None
        and planned is not None
        and wanted
        and re.search("concurren", plain(planned.key))
    ):
        return _fewer_at_once(argument, window, planned, wanted)
    if planned is None or sent is None or not wanted or was is None or planned.unit != sent.unit:
        return 0
    if was > _LESS * wanted:
        return 0
    argument.says(f"{says(planned)}, {says(sent)}: {was / wanted * 100:.0f} % of what was planned")
    return 1


def _fewer_at_once(argument: Argument, window: Window, planned: Fact, wanted: float) -> int:
    """Against what the server has of it, where the client itself says what holds it back."""
    now = activity_of(window)
    held = sum(series.max for series in (now.running, now.waiting) if series is not None)
    own = told_all(window, LOCAL + r"|harness|semaphore", without=NOT_LOCAL)
    if now.running is None or held > _LESS * wanted or not own:
        return 0
    argument.says(f"{says(planned)}, and {number(held)} at the server")
    return 1


def offered_less(argument: Argument, now: Activity) -> int:
    """The server was offered fewer than the client means to have sent, and has seats for more. Two
    signs where exactly as many run all the time as there are connections."""
    seen = told_number(now.window, _OFFERED, without=_NOT_OFFERED)
    meant = told_number(now.window, _SENDERS, without=_NOT_OFFERED)
    got, wanted = number_of(seen), number_of(meant)
    if got is None or not wanted or got > _LESS * wanted:
        return 0
    argument.fact(meant)
    argument.fact(seen)
    seats = now.seats
    if seats is not None:
        argument.says(f"{number(seats)} seats, {number(got)} requests at the server")
    if seats is not None and got >= seats:
        return 0
    return 2 if _stands_at(now, got) else 1


def _stands_at(now: Activity, connections: float) -> bool:
    """Seen more than once, and never another number: a ceiling, and no coincidence."""
    running = now.running
    if running is None or len(running.readings) < _TWICE:
        return False
    return running.is_constant and running.last.value == connections


_TWICE = 2


def unsent(argument: Argument, window: Window) -> int:
    """Requests that the client holds back itself."""
    fact = told_number(window, _HELD_BACK, without=_NOT_HELD_BACK)
    value = number_of(fact)
    if fact is None or value is None or value <= 0:
        return 0
    argument.fact(fact, "the client holds them back")
    return 1


def pauses(argument: Argument, now: Activity) -> int:
    """Between two requests it does nothing, for a good part of what a request takes."""
    gap = told_number(now.window, _GAP, without=r"token|chunk|itl|frame|retr|arriv|cap|limit|max")
    value, took = number_of(gap), _request_seconds(now)
    if gap is None or gap.unit is not Unit.SECONDS or not value or took is None:
        return 0
    if value < _LONG_PAUSE * took[0]:
        return 0
    share = took[0] / (took[0] + value)
    argument.fact(gap, "and nothing is sent meanwhile")
    argument.says(f"{took[1]}: it is in flight {share * 100:.0f} % of the time")
    return 1


_GAP = (
    r"\b(gap|pause|idle|think|sleep|delay|waits?|time)\b.*\b(between|before|until|to|till)\b.*"
    r"\b(requests?|calls?|sends?|next|answers?)\b|\bbetween (requests|calls|sends|answers)\b"
)
_LONG_PAUSE = 0.3


def _request_seconds(now: Activity) -> tuple[float, str] | None:
    """What a request takes on average, and in words."""
    fact = told_number(
        now.window,
        r"\b(e2e|end to end|request (latency|time|duration)|service time|latency)\b",
        without=r"ttft|itl|tpot|p9\d|max|worst|limit|objective|first",
    )
    value = number_of(fact)
    if fact is not None and fact.unit is Unit.SECONDS and value:
        return value, says(fact)
    histogram = now.window.find_histogram(Signal.E2E)
    mean = None if histogram is None else histogram.mean
    if histogram is None or not mean:
        return None
    return mean, f"{histogram.origin.name}: mean {number(mean)} s, {reckoned(histogram)}"


def fewer_on_average(argument: Argument, now: Activity) -> int:
    """Of those that it is to keep in flight, by its own count."""
    asked = _asked(now)
    wanted = number_of(asked)
    if asked is None or not wanted:
        return 0
    mean = told_number(now.window, _MEAN_IN_FLIGHT, without=_OF_OTHERS)
    held = number_of(mean)
    if mean is not None and held is not None and 0 < held <= _LESS * wanted:
        argument.says(f"{says(asked)}, {says(mean)}: it holds fewer than it is to")
        return 1
    return 0


def fewer_by_rate(argument: Argument, now: Activity) -> int:
    """By answers a second times what one takes, of all that the server did: nobody says that it is
    the same run."""
    asked, rate, took = _asked(now), _rate(now), _request_seconds(now)
    wanted = number_of(asked)
    if asked is None or not wanted or wanted <= 1 or rate is None or took is None:
        return 0
    if told_number(now.window, _MEAN_IN_FLIGHT, without=_OF_OTHERS) is not None:
        return 0
    held = rate[0] * took[0]
    if held > _LESS * wanted:
        return 0
    argument.says(
        f"{rate[1]} x {took[1]} = {number(round(held, 2))} in flight on average, and {says(asked)}"
    )
    return 1


def _asked(now: Activity) -> Fact | None:
    """How many it is to keep in flight."""
    asked = told_number(now.window, _PARALLEL, without=_NOT_PARALLEL)
    is_count = asked is not None and asked.unit in (None, Unit.REQUESTS, Unit.COUNT)
    return asked if is_count else None


_OF_OTHERS = r"other|another|second|with \w+ tool"
_PARALLEL = (
    r"^(client |load |bench\w* |test )?(max )?(parallel\w*|concurren\w*|num concurren\w*|vus"
    r"|virtual users|users|threads|num (clients|threads|workers|users)|clients)"
    r"( (asked|wanted|set|configured|level))?$"
)
_NOT_PARALLEL = r"server|engine|tensor|pipeline|max num seqs|slots|limit|mean|average|blocked"
_MEAN_IN_FLIGHT = (
    r"in ?flight.*\b(mean|average|avg)\b|\b(mean|average|avg|effective|achieved|actual|real)\b.*"
    r"(in ?flight|concurren\w*|parallel\w*)|concurrency (achieved|effective|measured)"
)


def tells_its_rate(now: Activity) -> bool:
    """Whoever measured says how many answers a second he got: what he asked for is of that run."""
    return _told_rate(now) is not None


def _rate(now: Activity) -> tuple[float, str] | None:
    """Answers a second, and in words."""
    fact = _told_rate(now)
    if fact is not None:
        return number_of(fact) or 0.0, says(fact)
    finished = now.finished
    rate = None if finished is None else finished.per_second
    return (rate, f"{finished.origin.name} {number(rate)} a second") if finished and rate else None


def _told_rate(now: Activity) -> Fact | None:
    fact = told_number(
        now.window,
        r"\b(requests?|req|completed|completions|answers|rps|qps|throughput)\b",
        without=_NOT_RATE,
    )
    is_rate = fact is not None and fact.unit is Unit.PER_SECOND and number_of(fact)
    return fact if is_rate else None


_NOT_RATE = r"target|asked|planned|wanted|limit|max|arriv|offered|tok|expected|before|other"
