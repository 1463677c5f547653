"""What the kernel, systemd and container runtimes write when they end a process."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

SHAPES = (
    shape(
        "Killed",
        LogKind.HOST_OUT_OF_MEMORY,
        r"[Oo]ut of memory: Killed process (?P<pid>\d+) \((?P<w_process>[^)]+)\)"
        r"(?: total-vm:(?P<virtual_bytes>\d+kB), anon-rss:(?P<bytes>\d+kB))?",
        by="kernel",
    ),
    shape(
        "killed",
        LogKind.HOST_OUT_OF_MEMORY,
        r"killed by the OOM killer",
        by="kernel",
    ),
    shape("oom-kill", LogKind.HOST_OUT_OF_MEMORY, r"Failed with result 'oom-kill'", by="systemd"),
    shape(
        "peak",
        LogKind.HOST_MEMORY_PEAK,
        r"Consumed .*?, (?P<bytes>[\d.]+[KMGT]) memory peak",
        by="systemd",
    ),
    shape("OOMKilled", LogKind.HOST_OUT_OF_MEMORY, r"\bOOMKilled\b", by="container"),
)
