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
    shape(
        "DefaultCPUAllocator",
        LogKind.HOST_OUT_OF_MEMORY,
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory"
        r"(?:: you tried to allocate (?P<wanted_bytes>\d+) bytes)?",
        by="allocator",
    ),
    shape("bad_alloc", LogKind.HOST_OUT_OF_MEMORY, r"std::bad_alloc", by="allocator"),
    shape("allocate", LogKind.HOST_OUT_OF_MEMORY, r"[Cc]annot allocate memory", by="allocator"),
    shape(
        "pinned",
        LogKind.HOST_OUT_OF_MEMORY,
        r"failed to allocate (?P<wanted_bytes>[\d.,]+ ?[KMG]i?B) of pinned memory",
        by="allocator",
    ),
    shape(
        "killed",
        LogKind.HOST_OUT_OF_MEMORY,
        r"killed due to (?:the node running low on memory|memory pressure)",
        by="ray",
    ),
    shape("shm", LogKind.HOST_OUT_OF_MEMORY, r"insufficient shared memory \(shm\)", by="kernel"),
    shape("OOMKilled", LogKind.HOST_OUT_OF_MEMORY, r"\bOOMKilled\b", by="container"),
)
