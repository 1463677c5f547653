"""What is tried on the diagnosis: each fault of the simulator at three intensities, and fleets that
are well, quiet and busy.

A trial says which mechanisms are right answers. Where metrics and gateway counts cannot show what
was done (nobody exports a tenant, no engine says why a step is slow), the answers that they do
allow are accepted, and `note` says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.diagnosis.mechanism import Mechanism

DIALECTS = ("vllm", "sglang", "llamacpp", "pilothouse")
WINDOW_SECONDS = 90.0
"""What a diagnosis sees: a minute of the fault, and half a minute before it."""
ONSET = 60.0
STEP_SECONDS = 10.0
LAST_SECONDS = 60.0
"""Behind the onset: the last look, whose answer counts."""
EVERY_SECONDS = 2.0

Faults = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One thing that goes wrong, or nothing, at rising intensities."""

    name: str
    right: tuple[Mechanism, ...]
    """The first is what was done."""
    levels: tuple[Faults, ...]
    rate: float = 10.0
    """Requests a second, on a fleet that can serve some 30."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What of the scenario's spec is otherwise."""
    onset: float = ONSET
    reads_logs: bool = False
    """Where engines tell it in their logs alone."""
    unseen_by: frozenset[str] = frozenset()
    """Dialects that export nothing of it."""
    unseen_levels: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """The same, where it is so of one level alone."""
    note: str = ""

    def is_seen_by(self, dialect: str, level: int) -> bool:
        """Whether replicas that speak so export anything of it."""
        return dialect not in self.unseen_by | self.unseen_levels.get(level, frozenset())

    @property
    def is_control(self) -> bool:
        """Nothing is wrong."""
        return self.right == (Mechanism.HEALTHY,)


def _levels(fault: Mapping[str, Any], key: str, values: Iterable[Any]) -> tuple[Faults, ...]:
    return tuple(({**fault, key: value},) for value in values)


def _from_onset(kind: str, intensities: Iterable[float], **more: Any) -> tuple[Faults, ...]:
    return _levels({"fault": kind, "at": f"{ONSET:g}s", **more}, "intensity", intensities)


_KV_NAMES = ["*cache_usage*", "*kv_blocks*", "*token_usage*", "*kv_used*", "*used_tokens*"]
_BATCH_NAMES = ["*num_requests_running*", "*running_reqs*", "*processing*", "*active_sequences*"]
_QUEUE_NAMES = ["*num_requests_waiting*", "*queue_reqs*", "*deferred*", "*waiting_requests*"]
_ENGINES_OWN = ["*running*", "*processing*", "*active_sequences*"]
_PHASES = {
    "prefill": 2,
    "decode": 2,
    "transfer": {"gigabits_per_second": 25.0, "bytes_per_token": 1000000},
}
_SPECULATION = {"draft_steps": 4, "draft_cost": 0.1, "acceptance": 0.8}
_COST = {"iteration": "20ms", "per_prompt_token": "100us", "per_decode_step": "1ms"}

_PATIENT = {"policy": {"classes": [{"name": "chat", "max_queue": 20000}]}}
"""A queue that takes everybody: what is refused would be another story."""


_HANG = {"fault": "hung_replica", "at": f"{ONSET:g}s"}


def _missing(names: Sequence[Sequence[str]]) -> tuple[Faults, ...]:
    return _levels({"fault": "missing_series", "at": f"{ONSET:g}s"}, "series", names)


FAULTS: tuple[Trial, ...] = (
    Trial(
        name="overload",
        right=(Mechanism.QUEUE_OVERLOAD,),
        levels=_from_onset("tenant_flood", (2, 3, 5)),
        rate=12,
        changes=_PATIENT,
        note="every tenant calls more often, and nobody is refused",
    ),
    Trial(
        name="clustered_arrivals",
        right=(Mechanism.QUEUE_BURST_DRAINING,),
        levels=_from_onset("clustered_arrivals", (0.8, 0.9, 1.0), period="55s"),
        rate=14,
        changes=_PATIENT,
    ),
    Trial(
        name="smaller_memory",
        right=(Mechanism.CACHE_THRASH,),
        levels=_from_onset("smaller_memory", (0.8, 0.83, 0.86)),
        rate=14,
        unseen_by=frozenset({"llamacpp"}),
    ),
    Trial(
        name="longer_outputs",
        right=(Mechanism.CACHE_GROWN_CONTEXTS, Mechanism.CACHE_THRASH),
        levels=_from_onset("longer_outputs", (3, 5, 8)),
        rate=8,
        unseen_by=frozenset({"llamacpp"}),
        note="where the longer ones no longer fit, they preempt each other",
    ),
    Trial(
        name="leak_on_cancel",
        right=(Mechanism.RELEASE_LEAK,),
        levels=_levels({"fault": "leak_on_cancel"}, "intensity", (0.3, 0.6, 1.0)),
        rate=6,
        changes={"clients": {"people": {"answer_within": "1s"}}},
        onset=0.0,
        note="replicas that know nothing of it are told by the gateways, which count it",
    ),
    Trial(
        name="workspace_spike",
        right=(
            Mechanism.OOM_PREFILL_TRANSIENT,
            Mechanism.OOM_DECODE_GROWTH,
            Mechanism.OOM_FOREIGN_MEMORY,
            Mechanism.CANNOT_TELL,
        ),
        levels=_from_onset("workspace_spike", (0.95, 0.98, 1.0), replica="replica-1"),
        reads_logs=True,
        note="an engine that dies of it says so in its log, and not always for what",
    ),
    Trial(
        name="stalled_replica",
        right=(Mechanism.HOST_BOUND, Mechanism.COMMUNICATION_BOUND, Mechanism.CANNOT_TELL),
        levels=_from_onset("stalled_replica", (3, 5, 9), replica="replica-1"),
        note="no engine exports why its steps take longer: to ask for it is right as well",
    ),
    Trial(
        name="hung_replica",
        right=(Mechanism.ENGINE_HUNG,),
        levels=(
            (_HANG | {"replica": "replica-1"},),
            (_HANG | {"replica": "replica-1"}, _HANG | {"replica": "replica-2"}),
            (_HANG,),
        ),
    ),
    Trial(
        name="slow_start",
        right=(Mechanism.STARTUP_SLOW,),
        levels=_levels(
            {"fault": "slow_start", "replica": "replica-2", "stage": "load"},
            "intensity",
            (4, 7, 10),
        ),
        changes={"replicas": {"start_cold": 2}},
        onset=0.0,
        reads_logs=True,
        unseen_by=frozenset({"llamacpp"}),
        note="llama.cpp's server tells no seconds of its stages",
    ),
    Trial(
        name="slow_weights",
        right=(Mechanism.STARTUP_SLOW,),
        levels=_levels({"fault": "transfer_limit"}, "intensity", (3, 4.5, 6)),
        changes={
            "replicas": {
                "start_cold": 2,
                "cold_start": {
                    "acquire": "1s",
                    "weights": {"gigabytes": 10.0, "gigabits_per_second": 25.0},
                    "compile": "3s",
                    "warm_up": "2s",
                },
            }
        },
        onset=0.0,
        reads_logs=True,
        unseen_by=frozenset({"llamacpp"}),
        note="llama.cpp's server tells no seconds of its stages",
    ),
    Trial(
        name="long_prompts",
        right=(Mechanism.INTERFERENCE_PREFILL,),
        levels=_levels(
            {"fault": "long_prompts", "at": f"{ONSET:g}s", "added_tokens": 3000},
            "share",
            ("30%", "40%", "50%"),
        ),
        changes={"replicas": {"max_num_batched_tokens": 2048, "num_blocks": 2048}},
        rate=8,
        unseen_by=frozenset({"pilothouse", "llamacpp"}),
        note="llama.cpp's server and our replica export no time between tokens",
    ),
    Trial(
        name="prefix_change",
        right=(Mechanism.CACHE_PREFIX_LOSS,),
        levels=_from_onset("prefix_change", (0.7, 0.85, 1.0)),
    ),
    Trial(
        name="retry_storm",
        right=(Mechanism.QUEUE_RETRY_STORM,),
        levels=tuple(
            (
                {"fault": "stalled_replica", "at": f"{ONSET:g}s", "intensity": intensity},
                {
                    "fault": "retry_storm",
                    "at": f"{ONSET:g}s",
                    "patience": "2s",
                    "backoff": "100ms",
                    "max_retries": 20,
                },
            )
            for intensity in (10, 15, 25)
        ),
        rate=8,
    ),
    Trial(
        name="slow_clients",
        right=(Mechanism.DELIVERY_SLOW_CLIENT,),
        levels=_from_onset("slow_clients", (0.3, 0.5, 0.8), tokens_per_second=2, buffered_tokens=8),
    ),
    Trial(
        name="sticky_routing",
        right=(Mechanism.ROUTING_SKEW,),
        levels=_from_onset("sticky_routing", (0.7, 0.8, 0.9), replica="replica-1"),
        rate=9,
    ),
    Trial(
        name="draft_disagreement",
        right=(Mechanism.SPECULATION_NOT_PAYING,),
        levels=_from_onset("draft_disagreement", (0.8, 0.9, 1.0)),
        changes={"replicas": {"cost": {**_COST, "speculation": _SPECULATION}}},
        unseen_by=frozenset({"pilothouse"}),
    ),
    Trial(
        name="kv_transfer_limit",
        right=(Mechanism.TRANSFER_BOUND,),
        levels=_from_onset("transfer_limit", (6, 9, 14)),
        rate=6,
        changes={"replicas": {"count": 4, "phases": _PHASES}},
    ),
    Trial(
        name="wrong_phase_split",
        right=(Mechanism.PHASE_MISMATCH,),
        levels=_from_onset("wrong_phase_split", (0.3, 0.5, 0.7)),
        rate=18,
        changes={
            "replicas": {
                "count": 8,
                "max_num_seqs": 4,
                "phases": {**_PHASES, "decode": 6},
            }
        },
    ),
    Trial(
        name="stale_metrics",
        right=(Mechanism.TELEMETRY_STALE,),
        levels=(
            *_from_onset("stale_metrics", (1.0,), replica="replica-1"),
            *_from_onset("stale_metrics", (1.0,)),
            *_from_onset("lying_metrics", (1.0,), how="stuck", series=_BATCH_NAMES + _KV_NAMES),
        ),
    ),
    Trial(
        name="missing_series",
        right=(Mechanism.TELEMETRY_MISSING,),
        levels=_missing((_QUEUE_NAMES, _BATCH_NAMES, _BATCH_NAMES + _QUEUE_NAMES + _KV_NAMES)),
    ),
    Trial(
        name="renamed_series",
        right=(Mechanism.TELEMETRY_MISSING,),
        levels=_levels(
            {"fault": "renamed_series", "at": f"{ONSET:g}s"},
            "series",
            (_QUEUE_NAMES, _BATCH_NAMES, _BATCH_NAMES + _QUEUE_NAMES + _KV_NAMES),
        ),
    ),
    Trial(
        name="lying_metrics",
        right=(Mechanism.TELEMETRY_MISREAD,),
        levels=(
            *_from_onset("lying_metrics", (2.0,), how="factor", series=_ENGINES_OWN),
            *_from_onset("lying_metrics", (0.9,), how="reset"),
            *_from_onset("lying_metrics", (1.0,), how="percent"),
        ),
        unseen_levels={2: frozenset({"llamacpp", "pilothouse"})},
        note="llama.cpp's server and our replica export no ratio that could be percent",
    ),
    Trial(
        name="tenant_flood",
        right=(Mechanism.TENANT_FLOOD, Mechanism.QUEUE_OVERLOAD),
        levels=_from_onset("tenant_flood", (9, 14, 20), tenants=["acme"]),
        rate=12,
        changes=_PATIENT,
        note="no series names a tenant; the records do",
    ),
)

CONTROLS: tuple[Trial, ...] = (
    Trial(name="quiet", right=(Mechanism.HEALTHY,), levels=((),), rate=2),
    Trial(name="busy", right=(Mechanism.HEALTHY,), levels=((),), rate=22),
    Trial(
        name="uneven",
        right=(Mechanism.HEALTHY,),
        levels=((),),
        rate=12,
        changes={"prompt": {"median": 200, "sigma": 1.1, "at_most": 2500}},
        note="busy, with prompts of very different lengths",
    ),
)
