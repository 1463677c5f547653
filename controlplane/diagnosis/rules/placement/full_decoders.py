"""Prompts are computed faster than they can be decoded, or the other way round."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.placement.halves import halves_of, has_many_between
from controlplane.diagnosis.rules.placement.seen_in_one_half import SEEN_IN_ONE_HALF
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window


def judge(window: Window) -> Verdict | None:
    """LIKELY where those that decode are full, and what was computed waits for them."""
    halves = halves_of(window)
    if halves is None or not has_many_between(halves) or not halves.is_decode_full:
        return None
    argument = Argument(window)
    halves.cite(argument)
    argument.against("transfer.bound: those that decode have no place free")
    argument.against("queue.overload: those that compute prompts wait for the others, not for work")
    argument.need("which replicas have which role, and since when")
    return argument.verdict(Confidence.LIKELY, detail="too few decode")


FULL_DECODERS = Rule(
    id="fleet-split",
    mechanism=Mechanism.PHASE_MISMATCH,
    judge=judge,
    needs=("work and batch of each replica over time", "requests between the phases"),
    told_apart="From a slow link by decoders that are full, from overload by the other half, which "
    "only waits.",
    remedy="Move replicas from the half that waits to the half that is full.",
    hides="A shorter queue at the gateway keeps the half that waits idle, and the split wrong.",
    explains=SEEN_IN_ONE_HALF,
)
