"""Counters of how requests ended, as every source of ours that counts them calls them."""

from collections.abc import Sequence

from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from dataplane.engine_metrics.signal import Signal


def ended(disposition: str, readings: Sequence[Reading], place: str) -> Series:
    """Those that ended so."""
    return Series(
        signal=Signal.GATEWAY_ENDED,
        origin=by_records(f"requests ended {disposition}", place),
        readings=tuple(readings),
        labels={"disposition": disposition},
    )


def refused(reason: str, readings: Sequence[Reading], place: str) -> Series:
    """Those that were turned away for it."""
    return Series(
        signal=Signal.GATEWAY_REJECTED,
        origin=by_records(f"requests turned away: {reason}", place),
        readings=tuple(readings),
        labels={"reason": reason},
    )


def by_records(name: str, place: str) -> Origin:
    """What our records are the source of."""
    return Origin(kind=SourceKind.RECORDS, name=name, place=place)
