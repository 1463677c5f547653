"""engine.hung: our own operator probed it in vain, and ended it."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import told_all
from controlplane.diagnosis.window import Window

_GIVEN_UP = r"^replicas? given up\b"


def _judge(window: Window) -> Verdict | None:
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


GIVEN_UP = Rule(
    id="engine-given-up",
    mechanism=Mechanism.ENGINE_HUNG,
    judge=_judge,
    needs=("why replicas were drained",),
    told_apart=(
        "From a slow engine by steps that are not taken; from a network that is cut by gateways "
        "that reach it."
    ),
    remedy=HUNG.remedy,
    hides=HUNG.hides,
    explains=HUNG.explains,
)
