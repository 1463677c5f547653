"""The longest context that an engine lets in."""

import re

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.views.told import value_of
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.limits import CONTEXT_LIMIT

_MAX_MODEL_LEN = r"(?:max.?model.?len|context.?len(?:gth)?)[^\d]{1,4}(\d[\d,]*)"


def max_model_len(window: Window) -> float | None:
    """In tokens, as it was told, else as a log has it."""
    told_limit = value_of(window, rf"{CONTEXT_LIMIT}|^context (len|length|size)$")
    if told_limit is not None:
        return told_limit
    kinds = (LogKind.STARTING, LogKind.KV_CACHE_SIZED, LogKind.KV_CACHE_TOO_SMALL)
    found = [
        event.fields["max_model_len"]
        for event in window.events_of(*kinds)
        if "max_model_len" in event.fields
    ]
    if found:
        return found[-1]
    lines = window.lines_with(_MAX_MODEL_LEN)
    said = re.search(_MAX_MODEL_LEN, lines[-1], re.IGNORECASE) if lines else None
    return None if said is None else float(said[1].replace(",", ""))
