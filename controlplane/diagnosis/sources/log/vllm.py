"""What vLLM writes while it runs, V0 and V1."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.figure import FigurePlace, Span, Unit
from controlplane.diagnosis.sources.log.shape import shape
from dataplane.engine_metrics.signal import Signal

_VLLM = "vllm"

STATISTICS_KEYS = frozenset({"throughput", "Throughput", "SpecDecoding", "Speculative", "hit"})

STATISTICS_START = re.compile(
    r"(?=Avg prompt throughput: |Prefix cache hit rate: GPU|Throughput: [\d.]+ tokens/s, Running)"
    r"|SpecDecoding metrics: |Speculative metrics: "
)

_ENGINE = re.compile(r"\bEngine (\d{1,4}): ")
_SIGNALS = {
    "Avg prompt throughput": Signal.PROMPT_RATE,
    "Avg generation throughput": Signal.GENERATION_RATE,
    # The first versions tell prompts and answers in one.
    "Throughput": Signal.GENERATION_RATE,
    "Running": Signal.RUNNING,
    "Waiting": Signal.WAITING,
    "Pending": Signal.WAITING,
    "Deferred": Signal.DEFERRED,
    "Swapped": Signal.SWAPPED,
    "GPU KV cache usage": Signal.KV_USAGE,
    "GPU cache usage": Signal.KV_USAGE,
    "Prefix cache hit rate": Signal.HIT_RATE,
    "Prefix cache token hit rate": Signal.HIT_RATE,
    "External prefix cache hit rate": Signal.EXTERNAL_HIT_RATE,
    "MM cache hit rate": Signal.MEDIA_HIT_RATE,
    "Mean acceptance length": Signal.ACCEPTANCE_LENGTH,
    "Avg Draft acceptance rate": Signal.ACCEPTANCE_RATE,
    "Draft acceptance rate": Signal.ACCEPTANCE_RATE,
    "System efficiency": Signal.SPECULATION_EFFICIENCY,
    "Accepted": Signal.LATE_ACCEPTED_TOKENS,
    "Drafted": Signal.LATE_DRAFT_TOKENS,
    "Number of speculative tokens": Signal.SPECULATED_TOKENS,
    "Number of accepted tokens": Signal.ACCEPTED_TOKENS,
    "Number of draft tokens tokens": Signal.DRAFT_TOKENS,
    "Number of draft tokens": Signal.DRAFT_TOKENS,
}


def find_statistics(text: str) -> Iterator[FigurePlace]:
    """Of the line that both versions write every few seconds, and those beside it.

    A figure counts only where its unit, a comma or a full stop follows: half a number at the end of
    a line that was cut off is none.
    """
    start = STATISTICS_START.search(text)
    if start is None:
        return
    engine = _ENGINE.search(text, 0, start.start() + 1)
    label_at = ("engine", engine.span(1)) if engine else None
    told: set[Signal] = set()
    at = start.end()
    for piece in text[at:].split(", "):
        name, _, rest = piece.partition(": ")
        end = at + len(piece)
        signal = _SIGNALS.get(name) or _of_cache(name, told)
        if signal is not None:
            told.add(signal)
            found = _number(rest, end - len(rest), end < len(text))
            if found is not None:
                yield FigurePlace(signal, name, *found, label_at=label_at)
        at = end + len(", ")


def _of_cache(name: str, told: set[Signal]) -> Signal | None:
    """V0 tells the device's cache and then the one in host memory; later versions tell one alone,
    by the name of the platform, which may be `CPU`."""
    if not name.endswith("KV cache usage"):
        return None
    return Signal.HOST_KV_USAGE if Signal.KV_USAGE in told else Signal.KV_USAGE


def _number(rest: str, at: int, is_followed: bool) -> tuple[Span, Unit] | None:
    """Where it is in `rest`, which stands at `at`."""
    told = rest.removeprefix("GPU: ")
    at += len(rest) - len(told)
    number, _, unit = told.partition(" ")
    if number.endswith(("%", "%.")):
        return (at, at + len(number.rstrip("%."))), Unit.PERCENT
    if unit or is_followed or number.endswith("."):
        return (at, at + len(number.rstrip("."))), Unit.PLAIN
    return None


SHAPES = (
    shape("Preemptions", LogKind.PREEMPTED, r"\bPreemptions: (?P<num>[1-9]\d*)", _VLLM),
    shape(
        "preempted",
        LogKind.PREEMPTED,
        r"Sequence group (?P<w_request_id>\S+) is preempted by (?:PreemptionMode\.)?(?P<w_mode>\w+)"
        r" mode(?:.*?total_(?:num_)?cumulative_preemption(?:_cnt)?=(?P<cumulative>\d+))?",
        _VLLM,
    ),
    shape(
        "found block available",
        LogKind.NO_PROGRESS,
        r"No available (?:shared memory broadcast )?block found in (?P<seconds>\d+ seconds?)",
        _VLLM,
    ),
    shape("RPC", LogKind.NO_PROGRESS, r"RPC call to (?P<w_what>\w+) timed out", _VLLM),
    shape("iteration", LogKind.NO_PROGRESS, r"Engine iteration timed out", _VLLM),
    shape(
        "exceeds long limit",
        LogKind.PROMPT_TOO_LONG,
        r"prompt \((?P<tokens>\d+) tokens\) is too long and exceeds (?:the )?limit of "
        r"(?P<limit>\d+)",
        _VLLM,
    ),
    shape(
        "longer",
        LogKind.PROMPT_TOO_LONG,
        r"prompt \((?:length )?(?P<tokens>\d+)(?: tokens)?\).* (?:longer than|exceeds) .*?"
        r"(?:length|limit) (?:of )?\(?(?P<limit>\d+)\)?",
    ),
    shape(
        "maximum length",
        LogKind.PROMPT_TOO_LONG,
        r"maximum (?:context|model) length (?:is|of) (?P<limit>\d+)(?: tokens)?"
        r"(?:.*?(?:requested|has|contains|resulted in) (?:at least )?(?P<tokens>\d+) "
        r"(?:input )?tokens)?",
    ),
    shape(
        "aborted",
        LogKind.CLIENT_GONE,
        r"Request (?P<w_request_id>[\w-]+) (?:was )?aborted",
        _VLLM,
    ),
    shape("Aborted", LogKind.CLIENT_GONE, r"Aborted request(?:\(s\))? (?P<w_request_id>[\w-]+)"),
    shape("Added request", LogKind.REQUEST_BEGAN, r"Added request (?P<w_request_id>[\w-]+)", _VLLM),
    shape(
        "Finished request",
        LogKind.REQUEST_ENDED,
        r"Finished request (?P<w_request_id>[\w-]+)",
        _VLLM,
    ),
    shape(
        "Successfully reset prefix",
        LogKind.CACHE_RESET,
        r"Successfully reset prefix cache",
        _VLLM,
    ),
    shape(
        "freed",
        LogKind.SLEPT,
        r"Sleep mode freed (?P<freed_bytes>[\d.]+ GiB) memory, (?P<used_bytes>[\d.]+ GiB) memory "
        r"is still in use",
        _VLLM,
    ),
    shape("asleep took", LogKind.SLEPT, r"It took (?P<seconds>[\d.]+ seconds) to fall asleep"),
    shape("wake took", LogKind.WOKE, r"It took (?P<seconds>[\d.]+ seconds) to wake up"),
    shape(
        "Transfer",
        LogKind.TRANSFER,
        r"KV Transfer metrics: .*?Num successful transfers=(?P<num>\d+)"
        r"(?:.*?Avg xfer time \(ms\)=(?P<ms>[\d.]+))?"
        r"(?:.*?P90 xfer time \(ms\)=(?P<p90_ms>[\d.]+))?"
        r"(?:.*?Avg post time \(ms\)=(?P<post_ms>[\d.]+))?"
        r"(?:.*?Avg MB per transfer=(?P<mb>[\d.]+))?"
        r"(?:.*?Throughput \(MB/s\)=(?P<mb_per_second>[\d.]+))?"
        r"(?:.*?Avg number of descriptors=(?P<descriptors>[\d.]+))?",
        _VLLM,
    ),
    shape(
        "lack",
        LogKind.OUT_OF_MEMORY,
        r"Aborted due to the lack of CPU swap space",
        _VLLM,
        stage="decode",
    ),
    shape(
        "swap space",
        LogKind.HOST_OUT_OF_MEMORY,
        r"Too large swap space\. (?P<wanted_bytes>[\d.]+ GiB) out of the (?P<bytes>[\d.]+ GiB)",
        _VLLM,
    ),
    # --- it ends --------------------------------------------------------------------------
    shape("EngineCore", LogKind.DIED, r"EngineCore (?:encountered a fatal error|hit an exception)"),
    shape("WorkerProc", LogKind.DIED, r"WorkerProc hit an exception", _VLLM),
    shape(
        "died",
        LogKind.DIED,
        r"Worker \S+ pid (?P<pid>\d+) died, exit code: (?P<exit_code>-?\d+)",
        _VLLM,
    ),
    shape(
        "died",
        LogKind.DIED,
        r"(?P<w_what>Worker proc|Engine core proc|Engine loop)\b.*\bdied",
        _VLLM,
    ),
    shape("EngineDeadError", LogKind.DIED, r"EngineDeadError", _VLLM),
    shape("AsyncEngineDeadError", LogKind.DIED, r"AsyncEngineDeadError", _VLLM),
    shape("Background", LogKind.DIED, r"Background loop (?:has errored|is stopped)", _VLLM),
    shape("output_handler", LogKind.DIED, r"output_handler failed", _VLLM),
)
