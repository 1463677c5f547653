"""A gateway's report, decoded and every number in it bounded: what is kept of it is added up,
shown and stored, and none of that may fail for one strange report."""

import operator
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from controlplane.operator.publisher import MAX_REPORTED_VERSION
from dataplane.engine import EngineStats
from dataplane.report import GatewayReport, ReplicaReport

_MAX_NUMBER = 2**53 - 1
"""What a browser still counts exactly."""
_MAX_UNIX_NS = 2**63 - 1
_BOUNDS = {
    "$.snapshot_version": MAX_REPORTED_VERSION,
    "$.started_at_unix_ns": _MAX_UNIX_NS,
    "$.reported_at_unix_ns": _MAX_UNIX_NS,
}
_DECODER = msgspec.json.Decoder(GatewayReport)
_NUMBERS = ({int}, {float}, {int, type(None)}, {float, type(None)})
_STATS_NUMBERS = operator.attrgetter(
    *(
        name
        for name, hint in typing.get_type_hints(EngineStats).items()
        if set(typing.get_args(hint) or (hint,)) in _NUMBERS
    )
)


class ReportError(ValueError):
    """A report that is not taken; the message names the path of what is wrong in it."""


def decode_report(data: bytes) -> GatewayReport:
    """Raises ReportError."""
    try:
        report = _DECODER.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"this is no gateway report: {error}") from error
    plain = tuple(each for each in report.replicas if _is_plain(each))
    # Those with nothing to find in them are left out: walking through thousands of replicas, of
    # each gateway in each second, would take longer than all else that a report costs.
    walked = report if len(plain) < len(report.replicas) else replace(report, replicas=())
    for path, number in _numbers("$", msgspec.to_builtins(walked)):
        bound = _BOUNDS.get(path, _MAX_NUMBER)
        if not 0 <= number <= bound:
            raise ReportError(
                f"this is no gateway report: a number between 0 and {bound} belongs at `{path}`, "
                f"got {number}"
            )
    return report


def _is_plain(report: ReplicaReport) -> bool:
    """Every number in it is within the bound."""
    stats = report.stats
    if not 0 <= report.num_outstanding <= _MAX_NUMBER:
        return False
    if stats is None:
        return True
    if stats.ledger and not all(0 <= each <= _MAX_NUMBER for each in stats.ledger.values()):
        return False
    return all(each is None or 0 <= each <= _MAX_NUMBER for each in _STATS_NUMBERS(stats))


def _numbers(path: str, value: object) -> Iterator[tuple[str, int | float]]:
    """Every number in `value`, with its path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(f"{path}.{key}", inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, inner in enumerate(value):
            yield from _numbers(f"{path}[{index}]", inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
