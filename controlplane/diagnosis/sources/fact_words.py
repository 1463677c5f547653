"""The words in which people write down what they know, and what each stands for.

Whoever meets a key that nobody thought of adds its words here.
"""

from dataplane.engine_metrics.signal import Unit

UNITS: dict[str, tuple[Unit, float, str]] = {
    "ns": (Unit.SECONDS, 1e-9, "ns"),
    "us": (Unit.SECONDS, 1e-6, "us"),
    "ms": (Unit.SECONDS, 1e-3, "ms"),
    "msec": (Unit.SECONDS, 1e-3, "ms"),
    "millis": (Unit.SECONDS, 1e-3, "ms"),
    "milliseconds": (Unit.SECONDS, 1e-3, "ms"),
    "s": (Unit.SECONDS, 1.0, "s"),
    "sec": (Unit.SECONDS, 1.0, "s"),
    "secs": (Unit.SECONDS, 1.0, "s"),
    "second": (Unit.SECONDS, 1.0, "s"),
    "seconds": (Unit.SECONDS, 1.0, "s"),
    "minute": (Unit.SECONDS, 60.0, "min"),
    "minutes": (Unit.SECONDS, 60.0, "min"),
    "h": (Unit.SECONDS, 3600.0, "h"),
    "hour": (Unit.SECONDS, 3600.0, "h"),
    "hours": (Unit.SECONDS, 3600.0, "h"),
    "days": (Unit.SECONDS, 86400.0, "days"),
    "years": (Unit.SECONDS, 365.25 * 86400.0, "years"),
    "bytes": (Unit.BYTES, 1.0, "bytes"),
    "kb": (Unit.BYTES, 1024.0, "KB"),
    "kib": (Unit.BYTES, 1024.0, "KiB"),
    "mb": (Unit.BYTES, 1024.0**2, "MB"),
    "mib": (Unit.BYTES, 1024.0**2, "MiB"),
    "gb": (Unit.BYTES, 1024.0**3, "GB"),
    "gib": (Unit.BYTES, 1024.0**3, "GiB"),
    "tb": (Unit.BYTES, 1024.0**4, "TB"),
    "tib": (Unit.BYTES, 1024.0**4, "TiB"),
    "percent": (Unit.RATIO, 0.01, "%"),
    "pct": (Unit.RATIO, 0.01, "%"),
    "%": (Unit.RATIO, 0.01, "%"),
    "ratio": (Unit.RATIO, 1.0, ""),
    "rps": (Unit.PER_SECOND, 1.0, "/s"),
    "qps": (Unit.PER_SECOND, 1.0, "/s"),
    "tps": (Unit.TOKENS_PER_SECOND, 1.0, "tokens/s"),
}
"""Word -> unit, factor, and how it is written behind the number. Memory is counted in powers of
two whatever it is called: engines and nvidia-smi do so."""

PER = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600}

BITS: dict[str, tuple[float, str]] = {
    "gbit": (1e9 / 8, "Gbit/s"),
    "mbit": (1e6 / 8, "Mbit/s"),
}
"""Before `s` or `per s` these make a rate in bytes; alone, as in `over_1_gbit`, a link's name."""

TOKENS = frozenset({"tokens", "token", "tok", "toks"})
COUNTED = TOKENS | {"req", "reqs", "requests"}
"""Before `s` or `per s` these make a rate."""

MOMENTS = frozenset({"ago", "since", "old", "later"})
"""Behind `s` these make a time of it: `last_token_s_ago`."""

APART = frozenset({"between", "gap", "pause"})
"""Before `requests_s` these make a time of it: `gap_between_requests_s`."""

ONE = frozenset({"token", "tok", "request", "req"})
ORDINALS = (["first"], ["last"], ["final"], ["second"])
"""Behind one of these and one of the former `s` makes a time of it: `rendered_last_token_s`."""

TIMED = frozenset(
    (
        *("age", "ago", "wait", "waited", "waiting", "time", "duration", "uptime", "took"),
        *("since", "oldest", "idle", "delay", "timeout", "elapsed"),
    )
)
"""Beside one of these `min` is a minute; otherwise it is the least value."""

SPANS = frozenset({"last", "past", "over", "in", "within", "every"})
"""Before `60_s` these say over which time something was counted."""

WHICH = frozenset({"this", "last", "past", "each", "every"})
CLOCKED = frozenset({"second", "minute", "min", "hour"})
"""One of the former before one of these tells over which time it was counted as well."""

SAME: tuple[tuple[str, str], ...] = (
    # what is under way
    ("inflight", "in flight"),
    ("outstanding", "in flight"),
    ("concurrent requests", "in flight"),
    ("open requests", "in flight"),
    ("active requests", "in flight"),
    ("requests open", "in flight"),
    ("open streams", "in flight streams"),
    ("active streams", "in flight streams"),
    ("requests in parallel", "in flight"),
    ("concurrency", "concurrent"),
    ("arrival", "arrivals"),
    ("arrived", "arrivals"),
    ("incoming", "arrivals"),
    ("requests received", "arrivals"),
    ("received requests", "arrivals"),
    ("completed", "completions"),
    ("completion rate", "completions"),
    ("finished requests", "completions"),
    ("queued", "queue waiting"),
    ("pending", "waiting"),
    ("backlog", "queue waiting"),
    ("queue depth", "waiting"),
    ("queue length", "waiting"),
    ("queue size", "waiting"),
    ("preempted", "preemptions"),
    ("preemption", "preemptions"),
    ("retracted", "retractions"),
    ("retraction", "retractions"),
    ("retry", "retries"),
    ("retried", "retries"),
    ("refused", "rejected"),
    ("rejections", "rejected"),
    ("rejects", "rejected"),
    ("shed", "rejected"),
    ("http 429", "rejected"),
    ("status 429", "rejected"),
    ("429s", "rejected"),
    ("http 503", "rejected"),
    ("cancels", "cancelled"),
    ("canceled", "cancelled"),
    ("cancellations", "cancelled"),
    ("disconnects", "cancelled"),
    ("disconnected", "cancelled"),
    ("aborted", "cancelled"),
    ("aborts", "cancelled"),
    # memory
    ("vram", "gpu memory"),
    ("hbm", "gpu memory"),
    ("gpu mem", "gpu memory"),
    ("gpu ram", "gpu memory"),
    ("device memory", "gpu memory"),
    ("device mem", "gpu memory"),
    ("cuda memory", "gpu memory"),
    ("nvidia smi used", "gpu memory used"),
    ("smi used", "gpu memory used"),
    ("card", "gpu"),
    ("cards", "gpus"),
    ("in use", "used"),
    ("ram", "host memory"),
    ("system memory", "host memory"),
    ("host mem", "host memory"),
    ("cpu memory", "host memory"),
    ("container limit", "host memory limit"),
    ("cgroup limit", "host memory limit"),
    ("memory limit", "limit"),
    # limits
    ("ctx", "context"),
    ("max model len", "context limit"),
    ("max seq len", "context limit"),
    ("context len", "context limit"),
    ("context length", "context limit"),
    ("context size", "context limit"),
    ("context window", "context limit"),
    ("ctx size", "context limit"),
    ("ctx len", "context limit"),
    ("n ctx", "context limit"),
    ("max num seqs", "seats"),
    ("max running requests", "seats"),
    ("max batch size", "seats"),
    ("n parallel", "seats"),
    ("= parallel", "seats"),
    ("= np", "seats"),
    ("slots", "seats"),
    ("max num batched tokens", "prefill chunk"),
    ("chunked prefill size", "prefill chunk"),
    ("max prefill tokens", "prefill chunk"),
    ("chunk tokens", "prefill chunk"),
    ("chunk size", "prefill chunk"),
    ("n ubatch", "prefill chunk"),
    ("ubatch size", "prefill chunk"),
    ("kv pool", "kv cache pool"),
    ("kv cache", "kv cache pool"),
    ("max total tokens", "kv cache pool"),
    ("max total num tokens", "kv cache pool"),
    ("page size", "block size"),
    ("mem fraction static", "gpu memory utilization"),
    ("gpu mem util", "gpu memory utilization"),
    ("gpu memory util", "gpu memory utilization"),
    # work
    ("largest", "longest"),
    ("biggest", "longest"),
    ("input tokens", "prompt tokens"),
    ("prompt len", "prompt tokens"),
    ("prompt length", "prompt tokens"),
    ("completion tokens", "output tokens"),
    ("generated tokens", "output tokens"),
    # times
    ("time to first token", "ttft"),
    ("first token latency", "ttft"),
    ("inter token latency", "itl"),
    ("time between tokens", "itl"),
    ("gap between tokens", "itl"),
    ("token gap", "itl"),
    ("tbt", "itl"),
    ("time per output token", "tpot"),
    ("end to end", "e2e"),
    ("request latency", "e2e"),
    ("average", "mean"),
    ("avg", "mean"),
    ("median", "p50"),
    # devices, processes, clients
    ("gpu util", "gpu busy"),
    ("gpu utilization", "gpu busy"),
    ("gpu usage", "gpu busy"),
    ("gpu busy", "gpu util"),
    ("device util", "gpu busy"),
    ("sm util", "gpu busy"),
    ("front end", "front"),
    ("frontend", "front"),
    ("api server", "front"),
    ("apiserver", "front"),
    ("blocked on write", "blocked clients"),
    ("clients blocked", "blocked"),
    ("pods", "replicas"),
    ("pod", "replica"),
    ("instances", "replicas"),
    ("hit ratio", "hit rate"),
    ("cached share", "hit rate"),
    ("canary", "probe"),
    ("healthz", "health"),
    ("health check", "health"),
    ("healthcheck", "health"),
)
"""Where a key holds the words on the left side by side, those on the right are added; `=` stands
for the beginning of the key."""

LIMITS = frozenset({"max", "limit", "maximum"})
"""`max_concurrent_requests` is a limit, and not what is in flight."""

INSTEAD = {
    "utilisation": "utilization",
    "memory util": "memory utilization",
    "mem util": "mem utilization",
}
"""Put in place: `gpu_mem_util` is a setting, and not how busy a device is."""

SHARES = frozenset({"util", "utilization", "usage", "busy", "rate", "share", "fraction", "perc"})
HELD_APART = frozenset(
    {"slots", "seats", "workers", "replicas", "threads", "connections", "streams", "processes"}
)
"""So many of these are busy: a number, and no share."""
CORES = frozenset({"cores", "cpus", "vcpu", "vcpus"})
"""5.9 of them in use: a number as well."""
FLOWS = frozenset(
    (
        *("request", "requests", "arrival", "arrivals", "token", "tokens", "scrape", "offered"),
        *("refresh", "poll", "generation", "incoming", "step", "steps", "frame", "frames"),
    )
)
"""These come at a rate."""
MOST_SHARE = 1.5
"""A share above it was written in percent."""
