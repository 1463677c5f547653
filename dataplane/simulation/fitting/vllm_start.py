"""How long vLLM took to start, by stage, from the spans that its processes write of that.

    Overall Loading  |------------------------------------------------|
    Load model                                 |------|
    stage            |-------- acquire --------|-load-|--- warm_up ---|

What it compiles is a part of the last. A model on several workers is loaded by each of them: from
the first that begins until the last is done.
"""

from collections.abc import Iterable, Mapping, Sequence

from dataplane import foreign_names
from dataplane.simulation.cold_start import StartStage
from dataplane.simulation.fitting.vllm_requests import EngineSpan


def read_vllm_starts(spans: Iterable[EngineSpan]) -> Sequence[Mapping[str, float]]:
    """Seconds by stage, of each start that is whole; in order of time."""
    ordered = sorted(spans, key=lambda span: span.start_unix_ns)
    wholes = [span for span in ordered if span.name == foreign_names.VLLM_START_SPAN]
    loads = [span for span in ordered if span.name == foreign_names.VLLM_LOAD_SPAN]
    found = []
    for whole in wholes:
        inside = [load for load in loads if _is_within(load, whole)]
        if inside:
            found.append(_stages(whole, inside))
    return found


def _stages(whole: EngineSpan, loads: Sequence[EngineSpan]) -> Mapping[str, float]:
    load_began = min(load.start_unix_ns for load in loads)
    load_ended = max(load.end_unix_ns for load in loads)
    return {
        StartStage.ACQUIRE: (load_began - whole.start_unix_ns) / 1e9,
        StartStage.LOAD: (load_ended - load_began) / 1e9,
        StartStage.WARM_UP: (whole.end_unix_ns - load_ended) / 1e9,
    }


def _is_within(part: EngineSpan, whole: EngineSpan) -> bool:
    is_of_it = part.service == whole.service
    return is_of_it and whole.start_unix_ns <= part.start_unix_ns <= part.end_unix_ns <= (
        whole.end_unix_ns
    )
