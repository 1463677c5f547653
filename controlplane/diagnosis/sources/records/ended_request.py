"""One request that ended, with what the diagnosis reads of it, whoever wrote it down."""

import re
from dataclasses import dataclass

from controlplane.api.request_views import RequestSummary
from controlplane.store.request_rows import compact_row
from controlplane.store.request_tables import RequestRow
from dataplane.admission.admit import RejectionKind
from dataplane.lifecycle import Disposition, EventKind, Observability, find_event
from dataplane.record import RequestRecord

_FULL_QUEUE = re.compile(r"\d (requests|tokens|bytes) (of class \S+ )?are waiting, ")
_LONG_QUEUE = re.compile(r"requests go before it and .*: engine work would begin in ")
"""As our gateway says it. A line of the list has the reason in words alone, and no code; of other
refusals only that they were is known then."""
_ENDED_ON_ARRIVAL = frozenset({Disposition.REJECTED, Disposition.INVALID})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRequest:
    """Offsets in seconds since its arrival. None: it did not happen, or nobody knows."""

    gateway_id: str
    gateway_sequence: int | None
    """Counts the records of one gateway; None: who asked may not see it."""
    arrived_at_unix_ns: int
    tenant: str | None
    deployment: str | None
    engine: str | None
    """The adapter that its replica was reached by; None: it reached none."""
    num_attempts: int
    disposition: str
    refusal: str | None
    """Which limit refused it, by the code of its error; None: it was not refused, or only that it
    was is known."""
    num_prompt_tokens: int | None
    num_cached_tokens: int | None
    num_output_tokens: int | None
    in_contract: bool | None
    scheduled: float | None
    finished: float | None
    last_write: float | None
    released: float | None
    ttft: float | None
    """This and the next two at the boundary of its contract, the server's where it has none."""
    tpot: float | None
    e2e: float | None
    max_gap: float | None
    """The longest time in which its engine sent nothing of its answer; only whole records say."""
    is_work_observed: bool
    """Its engine showed when it worked on it. False also where that is not known."""

    @property
    def arrived_at(self) -> float:
        """Unix time."""
        return self.arrived_at_unix_ns / 1e9

    @property
    def lasted(self) -> float | None:
        """Until it was over for its client and its engine; None: nobody saw its end."""
        known = [at for at in (self.finished, self.last_write, self.e2e) if at is not None]
        if not known and self.disposition in _ENDED_ON_ARRIVAL:
            return 0.0
        return max(known, default=None)

    @property
    def is_answered(self) -> bool:
        """Whole, as its caller asked for."""
        return self.disposition in (Disposition.STOP, Disposition.LENGTH)


def refusal_of(reason: str | None) -> str | None:
    """Which bound of the queue refused it; None where the words are of something else."""
    if reason is None:
        return None
    if _FULL_QUEUE.search(reason):
        return RejectionKind.QUEUE_FULL.value
    return RejectionKind.DEADLINE.value if _LONG_QUEUE.search(reason) else None


_ALIKE = (
    *("gateway_id", "gateway_sequence", "arrived_at_unix_ns", "tenant", "deployment"),
    "engine",
    *("num_attempts", "disposition", "num_prompt_tokens", "num_cached_tokens", "in_contract"),
)
"""Fields that every source calls the same."""
_IN_SUMMARY_BY_NAME = {
    "scheduled": "queue_seconds",
    "finished": "finished_seconds",
    "last_write": "last_write_seconds",
    "released": "released_seconds",
    "ttft": "ttft_seconds",
    "tpot": "tpot_seconds",
    "e2e": "e2e_seconds",
}
"""Times, which the store calls as we do, by what a line of the list calls them."""
_STORED = (*_ALIKE, *_IN_SUMMARY_BY_NAME)


def of_row(row: RequestRow) -> EndedRequest:
    """The store's compact row."""
    return EndedRequest(
        **{name: getattr(row, name) for name in _STORED},
        num_output_tokens=row.num_output_tokens,
        max_gap=None,
        refusal=refusal_of(row.reason),
        is_work_observed=row.is_engine_inferred is False,
    )


def of_record(record: RequestRecord) -> EndedRequest:
    """The full record, by what the store would make of it."""
    row = compact_row(record)
    began = find_event(record.events, EventKind.SCHEDULED)
    return EndedRequest(
        **{name: row[name] for name in _STORED},
        num_output_tokens=record.num_output_tokens,
        max_gap=record.latencies.engine.max_gap,
        refusal=None if record.decision is None else record.decision.kind,
        is_work_observed=began is not None and began.observability is Observability.OBSERVED,
    )


def of_summary(summary: RequestSummary) -> EndedRequest:
    """One line of `pilothouse requests --all -o json`."""
    return EndedRequest(
        **{name: getattr(summary, name) for name in _ALIKE},
        **{name: getattr(summary, shown) for name, shown in _IN_SUMMARY_BY_NAME.items()},
        num_output_tokens=summary.num_output_tokens,
        max_gap=None,
        refusal=refusal_of(summary.reason),
        is_work_observed=summary.is_engine_inferred is False,
    )
