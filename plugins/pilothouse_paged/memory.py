"""Measures what computing takes beside what is kept: the workspace line of the ledger."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class MeasurementError(RuntimeError):
    """This system does not say how much memory a process takes."""


def measure_peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """The most memory that `work` held at once beyond what was held before it.

    On CUDA by torch's allocator; on a CPU by the resident size of the process, which
    includes what libraries allocate on their own. Raises MeasurementError where neither
    can be read.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    # Without the permission to reset it the peak is that of the whole life of the process,
    # and what lies below an earlier peak stays unseen: the reserve covers it.
    with contextlib.suppress(OSError):
        _CLEAR_REFS.write_text(_RESET_PEAK)
    before = _read_status_bytes("VmRSS")
    work()
    return max(0, _read_status_bytes("VmHWM") - before)


def available_bytes(device: torch.device) -> int:
    """Memory that could be taken now without hurting others."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return _read_kib(Path("/proc/meminfo"), "MemAvailable")


def _read_status_bytes(name: str) -> int:
    return _read_kib(_STATUS, name)


def _read_kib(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise MeasurementError(
            f"{path} cannot be read ({error.strerror}); the paged engine runs on Linux"
        ) from error
    for line in lines:
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise MeasurementError(f"{path} does not say {name}")
