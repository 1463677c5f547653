"""What our own gateways write: one record for each request that ended."""

from collections import Counter
from collections.abc import Iterator, Mapping

from controlplane.diagnosis.sources.log.figure import Figure
from dataplane.engine_metrics.signal import Signal
from dataplane.lifecycle import Disposition

_EVENT = "request ended"
_DISPOSITIONS = frozenset(Disposition)
_REFUSED = frozenset({Disposition.REJECTED, Disposition.SHED})


class OwnRequests:
    """Counts them."""

    def __init__(self) -> None:
        self._ended: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    def take(self, record: Mapping[str, object]) -> Iterator[Figure]:
        """The new counts, where `record` is of a request that ended."""
        disposition = record.get("disposition")
        if record.get("event") != _EVENT or disposition not in _DISPOSITIONS:
            return
        told = str(disposition)
        self._ended[told] += 1
        yield _count(Signal.GATEWAY_ENDED, "request ended", self._ended[told], disposition=told)
        if told in _REFUSED:
            reason = str(record.get("reason"))
            self._refused[reason] += 1
            yield _count(
                Signal.GATEWAY_REJECTED, "request ended", self._refused[reason], reason=reason
            )


def _count(signal: Signal, name: str, count: int, **labels: str) -> Figure:
    return Figure(signal, name, count, str(count), labels)
