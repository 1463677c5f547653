"""An engine that runs on the CPU: the host's memory is its device's, and the stage decides.

What failed there is the CPU's allocator, in the engine's own code that loads weights or measures a
step. An engine on a device that cannot get host memory fails elsewhere: pinned buffers, caches.
"""

import re
from dataclasses import dataclass

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.window import Window

_BY_STAGE = (
    (Stage.PROFILE, re.compile(r"measure_workspace|profile_run|determine_(num_)?available")),
    (Stage.LOAD, re.compile(r"\bload_(weights|model|runner|tensors)\b|\blay_out\b.*_empty")),
)
_FRAMES = 60
"""Lines of a traceback before its last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFailure:
    """The CPU's allocator gave no more."""

    stage: Stage
    event: LogEvent

    @property
    def wanted(self) -> str:
        """`3538944 bytes wanted of the CPU's allocator`."""
        wanted = self.event.fields.get("wanted_bytes")
        size = "more" if wanted is None else f"{wanted:.0f} bytes"
        return f"{size} wanted, and the CPU's allocator gave none"


def cpu_failure(window: Window) -> CpuFailure | None:
    """The last such failure whose traceback says the stage; None without one."""
    for event in reversed(window.events_of(LogKind.HOST_OUT_OF_MEMORY)):
        if event.words.get("by") != "allocator":
            continue
        text = "\n".join((*_lines_before(window, event), event.line))
        for stage, frames in _BY_STAGE:
            if frames.search(text):
                return CpuFailure(stage=stage, event=event)
    return None


def _lines_before(window: Window, event: LogEvent) -> tuple[str, ...]:
    """Of its traceback, where that has several lines."""
    try:
        place = window.lines.index(event.line)
    except ValueError:
        return ()
    before = window.lines[max(0, place - _FRAMES) : place]
    starts = [number for number, line in enumerate(before) if "Traceback" in line]
    return before[starts[-1] :] if starts else ()
