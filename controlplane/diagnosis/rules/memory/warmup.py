"""oom.warmup: everything was placed, and the first run of it asked for more."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.failure import find_failure
from controlplane.diagnosis.rules.memory.ledger import asked_for, known, placed, shortened
from controlplane.diagnosis.rules.memory.sizing import product_for
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

_TOPICS = r"util|fraction|seq|seat|batch|token|vocab|vram|gpu.*mem|total|used|shard"


def _judge(window: Window) -> Verdict | None:
    failure = find_failure(window)
    if failure is None or failure.stage is not Stage.WARMUP:
        return None
    evidence = [*asked_for(failure)]
    if failure.stage_line:
        evidence.append(f"in warm-up: {shortened(failure.stage_line)}")
    evidence += placed(window, failure)
    product = None if failure.wanted is None else product_for(window, failure.wanted)
    if product is not None:
        evidence.append(product)
    evidence += [
        shortened(line)
        for line in window.lines_with(r"shard ready|dummy requests|prefill tokens")
        if line != failure.stage_line
    ][:3]
    return Verdict(
        confidence=Confidence.CERTAIN if failure.is_named else Confidence.LIKELY,
        evidence=(*dict.fromkeys(evidence), *known(window, _TOPICS)),
        against=(
            "not oom.load: the weights were in",
            "not oom.graph_capture: no capture was under way",
            "not a request's: none had been taken",
        ),
        needs=() if failure.is_named else ("the traceback of the failure",),
        detail="warm-up workspace",
    )


WARMUP = Rule(
    id="oom-warmup",
    mechanism=Mechanism.OOM_WARMUP,
    judge=_judge,
    needs=("the engine's log from its start",),
    told_apart=(
        "From oom.graph_capture by graphs that are finished or were never begun; from oom.profile "
        "by a KV cache that is placed; from oom.prefill_transient by the engine not being ready "
        "yet."
    ),
    remedy=(
        "Fewer seats or a smaller memory fraction, since these buffers grow with vocabulary times "
        "seats; where the weights themselves fill the device, a smaller model or a larger device."
    ),
    hides=(
        "Skipping the warm-up moves the failure to the first full batch in production; fewer seats "
        "look like batch.underfilled later."
    ),
)
