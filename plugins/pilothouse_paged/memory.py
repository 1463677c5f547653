"""Measures what computing takes beside what is kept: the workspace line of the ledger."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class MeasurementError(RuntimeError):
    """This system does not say how much memory a process takes."""


def measure_peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """The most memory that `work` held at once beyond what was held before it.

    On CUDA by torch's allocator. On a CPU the larger of two views: the tensors that were
    alive, which misses what libraries allocate on their own, and the growth of the
    process, which misses what reuses freed memory. Raises MeasurementError where the
    size of the process cannot be read.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - before)
    # Without the permission to reset it the peak is that of the whole life of the process,
    # and what lies below an earlier peak stays unseen: the reserve covers it.
    with contextlib.suppress(OSError):
        _CLEAR_REFS.write_text(_RESET_PEAK)
    before = _read_status_bytes("VmRSS")
    with _LiveTensors() as tensors:
        work()
    return max(int(tensors.peak_bytes), _read_status_bytes("VmHWM") - before)


# torch leaves these classes without types.
_Mode: Any = TorchDispatchMode
_WeakStorage: Any = StorageWeakRef


class _LiveTensors(_Mode):  # type: ignore[misc]
    """Adds up the storages that operations made and that are still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = 0
        self._bytes_by_storage: dict[Any, int] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        self._note((args, kwargs), is_ours=False)
        result = func(*args, **(kwargs or {}))
        self._note(result, is_ours=True)
        return result

    def _note(self, values: object, *, is_ours: bool) -> None:
        """What comes in unseen existed before, and counts nothing."""
        for leaf in tree_leaves(values):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                num_bytes = storage.nbytes() if is_ours else 0
                self._bytes_by_storage.setdefault(_WeakStorage(storage), num_bytes)
        alive = {ref: n for ref, n in self._bytes_by_storage.items() if not ref.expired()}
        self._bytes_by_storage = alive
        self.peak_bytes = max(self.peak_bytes, sum(alive.values()))


def available_bytes(device: torch.device) -> int:
    """Memory that could be taken now without hurting others."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
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
