"""load.generator_bound: the client that measures, or the way it connects, is the bottleneck."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.callers.client_limits import busy, cite_local, spent
from controlplane.diagnosis.rules.callers.measured_twice import (
    another_client,
    disagree,
    is_same_run,
    sides_with,
)
from controlplane.diagnosis.rules.callers.sending import (
    fewer_by_rate,
    fewer_on_average,
    offered_less,
    pauses,
    tells_its_rate,
    unkept,
    unsent,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.device import BUSY_CORE, cpu_of, is_device_idle
from controlplane.diagnosis.views.told import told_all
from controlplane.diagnosis.window import Window


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    argument = Argument(window)
    signs = busy(argument, window) + unkept(argument, window) + disagree(argument, now)
    signs += offered_less(argument, now) + unsent(argument, window) + spent(argument, window)
    signs += pauses(argument, now) + fewer_on_average(argument, now)
    by_rate = 0 if signs else fewer_by_rate(argument, now)
    is_reckoned = bool(by_rate) and not tells_its_rate(now)
    signs += by_rate
    sides = sides_with(argument, now)
    other = another_client(argument, window) or sides > 0
    signs += sides
    local = cite_local(argument, window)
    if not signs and not (other and (local or is_same_run(argument, window))):
        return None
    slack = _has_slack(argument, now)
    if slack is False:
        return None
    if is_reckoned and not (other or local):
        argument.need("requests in flight at the client, of the same run")
        return argument.verdict(Confidence.POSSIBLE)
    argument.against("queue.overload: the server has room and little to do")
    argument.against("delivery.front_end_bound: nothing says that the server's own front is busy")
    if slack and (other or signs > 1) and (other or local):
        return argument.verdict(Confidence.CERTAIN)
    if slack and (signs or other):
        return argument.verdict(Confidence.LIKELY)
    argument.need("CPU of the client's process", "the server's own TTFT and queue")
    return argument.verdict(Confidence.POSSIBLE)


def _has_slack(argument: Argument, now: Activity) -> bool | None:
    """The server could do more; None where nobody knows."""
    signs: list[bool] = []
    if now.waiting is not None:
        if now.running is not None and now.waiting.max >= _OVERFILLED * now.running.max > 0:
            return False
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


_OVERFILLED = 0.5
"""Of what runs, waiting at any moment: whoever sent that sends faster than the server takes."""

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
