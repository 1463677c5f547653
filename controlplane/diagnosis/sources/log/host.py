"""What kernels, drivers, systemd and container runtimes write when a process or a device fails."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

SHAPES = (
    # --- the host's memory ----------------------------------------------------------------
    shape(
        "Killed",
        LogKind.HOST_OUT_OF_MEMORY,
        r"(?P<w_scope>Memory cgroup out of memory|Out of memory|out of memory)"
        r"(?: \(oom_kill_allocating_task\))?: Killed process (?:(?P<pid>\d+) )?"
        r"\((?P<w_process>[^)]+)\)+,?"
        r"(?:.*?total-vm: ?(?P<virtual_bytes>[\d,]+ ?kB), anon-rss: ?(?P<bytes>[\d,]+ ?kB))?",
        by="kernel",
    ),
    shape(
        "oom-kill",
        LogKind.HOST_OUT_OF_MEMORY,
        r"oom-kill:constraint=(?P<w_constraint>CONSTRAINT_\w+)(?:.*?task=(?P<w_process>[^,]+),"
        r"pid=(?P<pid>\d+))?",
        by="kernel",
    ),
    shape(
        "oom-killer",
        LogKind.HOST_OUT_OF_MEMORY,
        r"(?P<w_process>\S+) invoked oom-killer",
        by="kernel",
    ),
    shape("OOM", LogKind.HOST_OUT_OF_MEMORY, r"killed by the OOM killer", by="kernel"),
    shape("oom-kill", LogKind.HOST_OUT_OF_MEMORY, r"Failed with result 'oom-kill'", by="systemd"),
    shape("OOMKilled", LogKind.HOST_OUT_OF_MEMORY, r"\bOOMKilled\b", by="container"),
    shape("OOMKilling", LogKind.HOST_OUT_OF_MEMORY, r"\bOOMKilling\b", by="container"),
    shape("OOMKilled", LogKind.HOST_OUT_OF_MEMORY, r"\"OOMKilled\": ?true", by="container"),
    shape(
        "DefaultCPUAllocator",
        LogKind.HOST_OUT_OF_MEMORY,
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory"
        r"(?:: you tried to allocate (?P<wanted_bytes>\d+ bytes))?",
        by="allocator",
    ),
    shape("bad_alloc", LogKind.HOST_OUT_OF_MEMORY, r"std::bad_alloc", by="allocator"),
    shape("MemoryError", LogKind.HOST_OUT_OF_MEMORY, r"\bMemoryError\b", by="allocator"),
    shape(
        "allocate memory", LogKind.HOST_OUT_OF_MEMORY, r"[Cc]annot allocate memory", by="allocator"
    ),
    shape(
        "pinned",
        LogKind.HOST_OUT_OF_MEMORY,
        r"failed to allocate (?P<wanted_bytes>[\d.,]+ ?[KMG]i?B) of pinned memory",
        by="allocator",
    ),
    shape("shm", LogKind.HOST_OUT_OF_MEMORY, r"insufficient shared memory \(shm\)", by="kernel"),
    shape(
        "killed due",
        LogKind.HOST_OUT_OF_MEMORY,
        r"killed due to (?:the node running low on memory|memory pressure)",
        by="ray",
    ),
    shape(
        "peak",
        LogKind.HOST_MEMORY_PEAK,
        r"Consumed .*?, (?P<bytes>[\d.]+[KMGT]) memory peak",
        by="systemd",
    ),
    shape(
        "memory",
        LogKind.HOST_MEMORY_PEAK,
        r"memory: usage (?P<bytes>\d+kB), limit (?P<limit_bytes>\d+kB), failcnt",
        by="kernel",
    ),
    shape(
        "threshold node",
        LogKind.HOST_MEMORY_PEAK,
        r"Memory on the node .*? was (?P<bytes>[\d.]+GB) / (?P<limit_bytes>[\d.]+GB)",
        by="ray",
    ),
    # --- how a process ended --------------------------------------------------------------
    shape(
        "exited",
        LogKind.DIED,
        r"Main process exited, code=(?P<w_how>\w+), status=(?P<exit_code>\d+)/(?P<w_signal>\w+)",
        by="systemd",
    ),
    shape("Exit", LogKind.DIED, r"Exit Code:\s+(?P<exit_code>[1-9]\d*)", by="container"),
    shape(
        "code",
        LogKind.DIED,
        r"\b(?:exited with|terminated with|exit)(?: code)?[:=]? ?(?P<exit_code>-?[1-9]\d*)\b",
    ),
    shape("exitcode", LogKind.DIED, r"exitcode[=: ]+(?P<exit_code>-?[1-9]\d*)"),
    shape("SIGKILL", LogKind.DIED, r"SIGKILL", signal="SIGKILL"),
    shape("Segmentation", LogKind.DIED, r"Segmentation fault", signal="SIGSEGV"),
    # --- the device -----------------------------------------------------------------------
    shape("Xid", LogKind.DEVICE_ERROR, r"NVRM: Xid \((?P<w_device>[^)]+)\): (?P<xid>\d+)"),
    shape("bus", LogKind.DEVICE_ERROR, r"GPU has fallen off the bus", what="fallen off the bus"),
    shape("illegal", LogKind.DEVICE_ERROR, r"an (?P<w_what>illegal memory access) was encountered"),
    shape("ECC", LogKind.DEVICE_ERROR, r"(?P<w_what>uncorrectable ECC error)"),
    shape("unspecified", LogKind.DEVICE_ERROR, r"(?P<w_what>unspecified launch failure)"),
    shape(
        "Default MiB",
        LogKind.DEVICE_MEMORY,
        r"\| +(?P<used_bytes>\d+MiB) / +(?P<total_bytes>\d+MiB) \| +(?P<busy_percent>\d+)% ",
    ),
    shape(
        "MiB C",
        LogKind.DEVICE_PROCESS,
        r"\| +(?P<device>\d+) +(?:\S+ +\S+ +)?(?P<pid>\d+) +[CG+]+ +(?P<w_process>\S.*?) +"
        r"(?P<used_bytes>\d+MiB) \|",
    ),
    # --- between devices ------------------------------------------------------------------
    shape(
        "NCCL network",
        LogKind.NETWORK_CHOSEN,
        r"NCCL INFO Using network (?P<w_network>\S+)",
        what="NCCL",
    ),
    shape(
        "NCCL found",
        LogKind.WARNING,
        r"NCCL INFO NET/IB : No device found",
        what="NCCL",
    ),
    shape(
        "UCX am",
        LogKind.NETWORK_CHOSEN,
        r"UCX +INFO .*\bam\((?P<w_network>[^/)]+)",
        what="UCX",
    ),
    shape(
        "collective",
        LogKind.COLLECTIVE_SLOW,
        r"(?:\[(?:PG \S+ )?Rank (?P<nccl_rank>\d+)\] )?Watchdog caught collective operation "
        r"timeout:.*?OpType=(?P<w_operation>\w+)(?:.*?ran for (?P<ms>\d+) milliseconds)?",
    ),
    shape(
        "NCCL",
        LogKind.COLLECTIVE_SLOW,
        r"(?:NCCL|Gloo|gloo)\S* (?:operation|communicator|connect\w*)?.*?\b(?:timed out|timeout)\b"
        r"(?:.*?(?P<ms>\d+) ?ms)?",
    ),
)
