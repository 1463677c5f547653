"""load.generator_bound: the client that measures, or the way it connects, is the bottleneck."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.device import BUSY_CORE, cpu_of, is_device_idle
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_GENERATOR = (
    r"client|generator|load ?gen|loadtest|load test|bench\w*|locust|k6|wrk|hey|vegeta|genai ?perf|"
    r"tester|driver|harness|script|jmeter|guidellm|tool|browser|tabs?"
)
_LESS = 0.7
"""Of what was to be sent: a generator that keeps its plan is nearer."""
_FACTOR = 2.0
"""Between what two clients measure at one server, or between client and server: beyond what a
network adds."""
_LAG_SECONDS = 0.05
"""Of an event loop that is to read tokens every 20 ms or so."""
_OFFERED = (
    r"(requests?|streams|connections)( \w+)* (seen|received|at|by)( the)? (server|engine|gateway)"
    r"|(established|open|active|tcp) (connections|sockets)|(connections|sockets) (established|open)"
)
_SENDERS = (
    r"^((simulated|virtual|concurrent|parallel) )?"
    r"(tabs|users|clients|virtual users|vus|threads|client concurrency|concurrency|workers sent)$"
)
_HELD_BACK = (
    r"(not (yet )?|un)sent|(queued|waiting|pending|stuck|blocked)( \w+)* (client|generator|pool)"
    r"|(client|generator|pool) (side )?(queue|backlog|waiting|pending)"
    r"|waiting for (a )?connection"
)
_PLANNED = r"target|planned|wanted|intended|configured|asked|desired|schedule|nominal"
_ACHIEVED = r"achieved|actual|real|sent|effective|measured|observed|delivered"
_LOCAL = (
    r"event loop|loop lag|ephemeral|ports?( used| left| in use)|file descriptors?|open files|"
    r"ulimit|fd limit|gil|single (process|thread|core)|read buffer|read bufsize|semaphore|socket|"
    r"connection pool|connections? (from|limit|pool)|pool size|nic|bandwidth|tokeniz|gc pause"
)


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    argument = Argument(window)
    signs = _busy(argument, window) + _unkept(argument, window) + _disagree(argument, now)
    signs += _offered_less(argument, now) + _unsent(argument, window) + _spent(argument, window)
    other = _another_client(argument, window)
    local = _cite_local(argument, window)
    if not signs and not (other and local):
        return None
    slack = _has_slack(argument, now)
    if slack is False:
        return None
    argument.against("queue.overload: the server has room and little to do")
    argument.against("delivery.front_end_bound: nothing says that the server's own front is busy")
    if slack and (other or signs > 1) and (other or local):
        return argument.verdict(Confidence.CERTAIN)
    if slack and (signs or other):
        return argument.verdict(Confidence.LIKELY)
    argument.need("CPU of the client's process", "the server's own TTFT and queue")
    return argument.verdict(Confidence.POSSIBLE)


def _busy(argument: Argument, window: Window) -> int:
    """Its process has no CPU left, or its loop is behind."""
    signs = 0
    cpu = cpu_of(window, _GENERATOR)
    if cpu is not None and cpu.value >= BUSY_CORE:
        argument.says(f"{cpu.says}: the generator has no CPU left")
        signs += 1
    lock = told_number(window, rf"({_GENERATOR}).*\b(gil|lock)\b|\bgil\b")
    held = share_of(lock)
    if lock is not None and held is not None and held >= BUSY_CORE:
        argument.fact(lock, "one thread is all that it has")
        signs += 1
    lag = told_number(window, rf"({_GENERATOR}).*(loop )?(lag|behind|late|delay|drift)|loop lag")
    value = number_of(lag)
    if lag is not None and value is not None and value >= _LAG_SECONDS:
        argument.fact(lag, "the generator is behind")
        signs += 1
    return signs


def _unkept(argument: Argument, window: Window) -> int:
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
    own = told_all(window, _LOCAL + r"|harness|semaphore")
    if now.running is None or held > _LESS * wanted or not own:
        return 0
    argument.says(f"{says(planned)}, and {number(held)} at the server")
    return 1


def _disagree(argument: Argument, now: Activity) -> int:
    """The server's own time to a first token is far below what the client reports."""
    histogram = now.window.find_histogram(Signal.TTFT)
    mean = None if histogram is None else histogram.mean
    engine = told_number(now.window, r"(engine|server|vllm|sglang)\b.*ttft|ttft.*(engine|server)")
    if mean is None:
        mean = number_of(engine)
    reported = [
        (fact, value)
        for fact in told_all(
            now.window,
            rf"\b({_GENERATOR}|reported|observed|seen|curl)\b.*ttft|ttft.*\b({_GENERATOR})\b",
            without=r"server|engine|gateway",
        )
        if (value := number_of(fact)) is not None
    ]
    worst = max(reported, key=lambda pair: pair[1], default=None)
    if mean is None or worst is None or worst[1] < _FACTOR * mean or mean <= 0:
        return 0
    for fact, _ in reported:
        argument.fact(fact)
    if histogram is not None and histogram.mean is not None:
        count = number(histogram.observed.count)
        sentence = f"{histogram.origin.name}: mean {number(mean)} s over {count} requests"
        argument.histogram(histogram, mean, sentence)
    else:
        argument.fact(engine)
    argument.says(f"the client reports {number(worst[1] / mean)} times what the server measured")
    return 1


def _offered_less(argument: Argument, now: Activity) -> int:
    """The server was offered fewer than the client means to have sent, and has seats for more."""
    seen = told_number(now.window, _OFFERED)
    meant = told_number(now.window, _SENDERS)
    got, wanted = number_of(seen), number_of(meant)
    if got is None or not wanted or got > _LESS * wanted:
        return 0
    argument.fact(meant)
    argument.fact(seen)
    seats = now.seats
    if seats is not None:
        argument.says(f"{number(seats)} seats, {number(got)} requests at the server")
    return 1 if seats is None or got < seats else 0


def _unsent(argument: Argument, window: Window) -> int:
    """Requests that the client holds back itself."""
    fact = told_number(
        window, _HELD_BACK, without=r"bytes|chunk|token|stream|buffer|frame|server|engine|write"
    )
    value = number_of(fact)
    if fact is None or value is None or value <= 0:
        return 0
    argument.fact(fact, "the client holds them back")
    return 1


def _spent(argument: Argument, window: Window) -> int:
    """Something of the client's own has run out."""
    found = [
        fact
        for fact in window.facts
        if fact.value is None and re.search(_RUN_OUT, fact.raw, re.IGNORECASE)
    ]
    for fact in found:
        argument.fact(fact, "the client has run out of it")
    return int(bool(found))


_RUN_OUT = (
    r"EADDRNOTAVAIL|EMFILE|too many open files|cannot assign requested address|pool is full|"
    r"pool ?timeout|constrain your throughput|event loop (is )?blocked"
)


_OTHER_CLIENT = (
    r"same (test|load|server|run|prompts)|"
    r"(second|two|other|another) (client|generator|tool|process)(e?s)?|"
    r"(from|with|by|in|on) (\w+ )?(clients|generators|client (processes|machines|threads))"
)


def _another_client(argument: Argument, window: Window) -> bool:
    """The same server gives much more to another client."""
    same = told_all(window, _OTHER_CLIENT)
    for fact in same:
        argument.fact(fact)
    pairs = _by_tool(window)
    for one, two in pairs:
        argument.says(f"{says(one)}, {says(two)}: at the same server")
    return bool(pairs) or any(_is_better(window, fact) for fact in same)


def _by_tool(window: Window) -> list[tuple[Fact, Fact]]:
    """`bench_a_tokens_per_s` beside `bench_b_tokens_per_s`, far apart."""
    shapes: dict[str, list[Fact]] = {}
    for fact in told_all(window, rf"\b({_GENERATOR})\b.*(tok|ttft|rps|throughput|per s|requests)"):
        value = number_of(fact)
        if value is not None and value > 0:
            shape = re.sub(rf"\b({_GENERATOR}) (\w+) ", r"* ", plain(fact.key), count=1)
            shapes.setdefault(shape, []).append(fact)
    found = []
    for facts in shapes.values():
        values = sorted(facts, key=lambda fact: number_of(fact) or 0.0)
        least, most = values[0], values[-1]
        low, high = number_of(least) or 0.0, number_of(most) or 0.0
        if least.key != most.key and high >= _FACTOR * low:
            found.append((most, least))
    return found


def _is_better(window: Window, fact: Fact) -> bool:
    """The other client gets far more than this one, or gets it far sooner."""
    other = number_of(fact)
    measured = set(re.sub(_OTHER_CLIENT, " ", plain(fact.key)).split())
    if other is None or not measured:
        return False
    for own in window.facts:
        value = number_of(own)
        is_alike = own.unit is fact.unit and measured <= set(plain(own.key).split())
        if own is fact or value is None or not is_alike or re.search(_OTHER_CLIENT, plain(own.key)):
            continue
        more, less = (value, other) if fact.unit is Unit.SECONDS else (other, value)
        if more >= _FACTOR * less > 0:
            return True
    return False


def _cite_local(argument: Argument, window: Window) -> bool:
    """Limits on the client's side."""
    found = told_all(window, _LOCAL, without=r"server|engine|front")
    for fact in found:
        argument.fact(fact)
    return bool(found) or cpu_of(window, _GENERATOR) is not None


def _has_slack(argument: Argument, now: Activity) -> bool | None:
    """The server could do more; None where nobody knows."""
    signs: list[bool] = []
    if now.waiting is not None:
        argument.series(now.waiting)
        signs.append(now.waiting.last.value == 0)
    argument.series(now.running)
    if now.kv is not None:
        argument.series(now.kv)
        signs.append(now.has_room is True)
    idle = is_device_idle(now.window)
    if idle is not None:
        signs.append(idle)
        for fact in told_all(now.window, r"gpu.*(util|busy|usage|percent)"):
            argument.fact(fact)
    front = cpu_of(now.window, r"front|api server|server|engine|router|proxy|ingress")
    if front is not None and front.value >= BUSY_CORE:
        return False
    return all(signs) if signs else None


GENERATOR_BOUND = Rule(
    id="load-generator-bound",
    mechanism=Mechanism.LOAD_GENERATOR_BOUND,
    judge=_judge,
    needs=(
        "CPU of the client's process, or a second client at the same server",
        "the server's own TTFT and queue",
    ),
    told_apart=(
        "From queue.overload by a server with an empty queue; from delivery.front_end_bound by a "
        "client, and not the server's front, without CPU left; from batch.underfilled by a client "
        "that means to send more than it does."
    ),
    remedy=(
        "Repair the client (processes, sessions, buffers, connections) or spread it over machines, "
        "and measure again before the server is tuned."
    ),
    hides=(
        "Fewer requests in flight make the client's figures good and say nothing of what the "
        "server can do."
    ),
    explains=frozenset({Mechanism.BATCH_UNDERFILLED, Mechanism.HOST_BOUND}),
)
