"""Facts about this machine and this installation."""

import importlib.metadata
import os
import platform
import resource
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from controlplane.support.archive import Archive
from dataplane.plugins import PluginGroup, list_plugins

Gather = Callable[[Archive], None]
_MEMORY = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
_PREFIXES = ("PILOTHOUSE_", "OTEL_", "CUDA_", "NVIDIA_", "OMP_", "TORCH_", "PYTHON")


def add_system(state_dir: Path) -> Gather:
    """Processor, memory, disk, limits and versions."""

    def gather(archive: Archive) -> None:
        folder = state_dir if state_dir.exists() else Path.cwd()
        disk = shutil.disk_usage(folder)
        archive.add_json(
            "system.json",
            {
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "pilothouse": importlib.metadata.version("pilothouse"),
                "python": sys.version,
                "executable": sys.executable,
                "platform": platform.platform(),
                "machine": platform.machine(),
                "num_cpus": os.cpu_count(),
                "num_usable_cpus": len(os.sched_getaffinity(0)),
                "load": os.getloadavg(),
                "memory": _memory(),
                "disk": {"of": str(folder), **disk._asdict()},
                "max_open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
                "uptime_seconds": _uptime_seconds(),
                "cgroup": _first_lines("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/cpu.max"),
            },
        )

    return gather


def add_packages(archive: Archive) -> None:
    """Every installed distribution with its version."""
    found = {each.name: each.version for each in importlib.metadata.distributions()}
    archive.add_json("packages.json", dict(sorted(found.items())))


def add_environment(archive: Archive) -> None:
    """The variables that change how our processes behave, secrets masked; of all others nothing."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES)}
    archive.add_json("environment.json", dict(sorted(kept.items())))


def add_plugins(archive: Archive) -> None:
    """What is installed, by the process that would load it; nothing is imported."""
    found = [asdict(plugin) for group in PluginGroup for plugin in list_plugins(group)]
    archive.add_json("plugins.json", found)


def _memory() -> dict[str, str]:
    pairs = (line.partition(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return {name: value.strip() for name, _, value in pairs if name in _MEMORY}


def _uptime_seconds() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def _first_lines(*paths: str) -> dict[str, str]:
    """Of those files that there are: the limits of a container."""
    return {path: Path(path).read_text().strip() for path in paths if Path(path).is_file()}
