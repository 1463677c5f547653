"""What a replica of our own engine writes: one JSON object a line, whose message is `event`."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

_PILOTHOUSE = "pilothouse"

SHAPES = (
    shape(
        "serving",
        LogKind.READY,
        r"^serving(?:;|$)(?=(?:.*\bacquire (?P<acquire_seconds>[\d.]+ s))?)"
        r"(?=(?:.*\bload (?P<load_seconds>[\d.]+ s))?)"
        r"(?=(?:.*\bcompile (?P<compile_seconds>[\d.]+ s))?)"
        r"(?=(?:.*\bwarm_up (?P<warm_up_seconds>[\d.]+ s))?)",
        _PILOTHOUSE,
    ),
    shape(
        "leak",
        LogKind.OUTPUT_WITHOUT_OWNER,
        r"^request (?P<w_request_id>\S+) finished (?P<seconds>[\d.]+ s) ago and is not released",
        _PILOTHOUSE,
    ),
)
