"""What a routing decision read of one replica, as it is kept in a request's record."""

from dataplane.decision import Signal
from dataplane.routing.candidate import Candidate


def read_signals(
    candidate: Candidate, num_cached_tokens: int | None, told_at: float | None, now: float
) -> tuple[Signal, ...]:
    """The gateway's own counts of this moment, what it has of the prompt, and what it reported,
    with its age; a report that was not used says so. `told_at`: when its engine told what it has of
    prompts; None: that is thought, by what it was sent."""
    signals = [
        Signal(
            name="outstanding",
            value=candidate.num_outstanding,
            unit="sequences",
            limit=candidate.max_outstanding,
        ),
        Signal(name="prompt_ahead", value=candidate.num_prompt_tokens_ahead, unit="tokens"),
        Signal(name="output_ahead", value=candidate.num_output_tokens_ahead, unit="tokens"),
    ]
    if num_cached_tokens is not None:
        signals.append(
            Signal(
                name="cached_prefix",
                value=num_cached_tokens,
                unit="tokens",
                source="gateway" if told_at is None else candidate.replica_id,
                age_seconds=0.0 if told_at is None else round(now - told_at, 3),
            )
        )
    if candidate.prefill_tokens_per_second is not None:
        rate = round(candidate.prefill_tokens_per_second, 1)
        signals.append(Signal(name="prefill_rate", value=rate, unit="tokens/s"))
    if (report := candidate.reported) is not None:
        signals.append(
            Signal(
                name="reported",
                value=report.num_sequences,
                unit="sequences",
                source=candidate.replica_id,
                age_seconds=round(report.age(now), 3),
                is_used=report.why_not is None and report.is_new(now),
            )
        )
    return tuple(signals)
