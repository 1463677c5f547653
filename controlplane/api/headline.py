"""A request in one sentence: how it ended, what that cost its contract, what to do. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.api.signal_words import SIGNAL_WORDS
from dataplane.judgement import Verdict
from dataplane.latency import Boundary
from dataplane.lifecycle import CLIENT_LEFT
from dataplane.record import RequestRecord

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.store.request_tables import RequestRow

_ENDINGS = {
    "stop": "Answered whole",
    "length": "Answered up to its token limit",
    "cancelled": "The client left",
    "deadline": "Expired in the queue",
    "shed": "Shed under overload",
    "rejected": "Rejected",
    "invalid": "Refused as invalid",
    "error": "Failed",
    "lost": "Lost with its gateway",
}
_REMEDIES = {
    "deadline": "Add replicas, or lengthen `deadline` of the class in the admission policy.",
    "shed": "Add replicas, or shed another class first.",
    "rejected": "Raise the limit that its reason names, or add replicas if the service is short.",
    "invalid": "The caller has to change the request.",
    "error": "Read the log of the replica it ran on; other requests of that replica failed too.",
    "lost": "See why the gateway ended; the caller has to send the request again.",
}
_QUEUE_IS_TO_BLAME = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What a page says first."""

    tone: str
    """page: the service failed it; ticket: it broke its contract; ok; no_data: cannot be judged."""
    text: str
    remedy: str | None


def headline_of(row: "RequestRow", record: RequestRecord | None) -> Headline:
    """The sentence about one request."""
    ending = _ending_of(row)
    if row.disposition in _REMEDIES:
        told = (row.reason or "").removeprefix(f"{ending}: ")
        why = f": {told.rstrip('.')}" if told else ""
        return Headline(
            tone="ok" if row.disposition in ("invalid",) else "page",
            text=f"{ending}{why}.",
            remedy=_REMEDIES[row.disposition],
        )
    if row.in_contract is not False and _lacks_report(record):
        judged = "in contract so far" if row.in_contract else "not judged"
        return Headline(
            tone="no_data",
            text=f"{ending}, {judged}: its contract counts at the client, which did not report.",
            remedy="Let the client report its side; the runbook client-latency-missing says how.",
        )
    if row.in_contract is None:
        text = f"{ending}. No objective of a contract applies to it."
        return Headline(tone="no_data", text=text, remedy=None)
    if row.in_contract:
        return Headline(tone="ok", text=f"{ending}, in contract.", remedy=None)
    return Headline(
        tone="ticket", text=f"{ending}, out of contract{_misses(record)}.", remedy=_cause(row)
    )


def _ending_of(row: "RequestRow") -> str:
    if row.disposition == "cancelled" and row.reason and row.reason != CLIENT_LEFT:
        return f"Cut off ({row.reason.rstrip('.')})"  # by the gateway, and it says why
    return _ENDINGS.get(row.disposition, row.disposition)


def _lacks_report(record: RequestRecord | None) -> bool:
    """A latency was promised at the client, and only the client could have told it."""
    judgement = None if record is None else record.judgement
    if record is None or judgement is None or judgement.boundary is not Boundary.CLIENT:
        return False
    verdicts = {result.verdict for result in judgement.results}
    return record.client is None and Verdict.NOT_APPLICABLE in verdicts


def _misses(record: RequestRecord | None) -> str:
    if record is None or record.judgement is None:
        return ""
    misses = [
        f"{SIGNAL_WORDS[result.signal]} {_milliseconds(result.measured_seconds)} "
        f"of {_milliseconds(result.at_most_seconds)}"
        for result in record.judgement.results
        if result.verdict is Verdict.BAD and result.at_most_seconds is not None
    ]
    return ": " + ", ".join(misses) if misses else ""


def _cause(row: "RequestRow") -> str | None:
    if not row.scheduled or not row.ttft:
        return None
    share = row.scheduled / row.ttft
    if share < _QUEUE_IS_TO_BLAME:
        return None
    return (
        f"{share:.0%} of the time to its first token was spent waiting for a slot: "
        "look at load and replicas, not at the engine."
    )


def _milliseconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:,.0f} ms"
