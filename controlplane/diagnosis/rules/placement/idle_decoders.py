"""Prompts are computed and decoders wait for them: the link between them is short."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.placement.halves import halves_of, has_many_between
from controlplane.diagnosis.rules.placement.seen_in_one_half import SEEN_IN_ONE_HALF
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window


def judge(window: Window) -> Verdict | None:
    """LIKELY where many are between the halves while those that decode have little to do."""
    halves = halves_of(window)
    if halves is None or not has_many_between(halves) or not halves.is_decode_idle:
        return None
    argument = Argument(window)
    halves.cite(argument)
    argument.against("phase.mismatch: those that decode have places free")
    argument.against("queue.overload: nothing that computes is at its limit")
    argument.need("bytes moved and seconds for each transfer")
    return argument.verdict(Confidence.LIKELY)


IDLE_DECODERS = Rule(
    id="fleet-transfer",
    mechanism=Mechanism.TRANSFER_BOUND,
    judge=judge,
    needs=("work and batch of each replica over time", "requests between the phases"),
    told_apart="From a wrong proportion of the halves by decoders that idle, from overload by "
    "engines below their limit.",
    remedy="Widen or repair the link, move less (a smaller KV format, prefixes that are there "
    "already), or let those that have little to do compute prompts as well.",
    hides="Fewer prompts at once make the queue before the link shorter and the service slower.",
    explains=SEEN_IN_ONE_HALF | {Mechanism.PHASE_MISMATCH},
)
