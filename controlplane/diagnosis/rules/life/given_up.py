"""Our own operator probed a replica in vain, and ended it."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import told_all
from controlplane.diagnosis.window import Window

_GIVEN_UP = r"^replicas? given up\b"


def judge_given_up(window: Window) -> Verdict | None:
    """LIKELY: a network that is cut looks the same to who probes."""
    replicas = [fact for fact in told_all(window, _GIVEN_UP) if fact.part is not None]
    if not replicas:
        return None
    argument = Argument(window)
    for fact in replicas:
        argument.fact(fact, "it was drained and is replaced")
    argument.against("queue.overload: an engine that is busy takes steps")
    argument.need("its log and stacks, if they were kept")
    names = ", ".join(str(fact.part) for fact in replicas)
    return argument.verdict(Confidence.LIKELY, detail=f"given up: {names}")
