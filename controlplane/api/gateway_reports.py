"""A gateway's report, decoded and every number in it bounded: what is kept of it is added up,
shown and stored, and none of that may fail for one strange report."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from controlplane.operator.publisher import MAX_REPORTED_VERSION
from dataplane.report import GatewayReport

_MAX_NUMBER = 2**53 - 1
"""What a browser still counts exactly."""
_MAX_UNIX_NS = 2**63 - 1
_BOUNDS = {
    "$.snapshot_version": MAX_REPORTED_VERSION,
    "$.started_at_unix_ns": _MAX_UNIX_NS,
    "$.reported_at_unix_ns": _MAX_UNIX_NS,
}
_DECODER = msgspec.json.Decoder(GatewayReport)


class ReportError(ValueError):
    """A report that is not taken; the message names the path of what is wrong in it."""


def decode_report(data: bytes) -> GatewayReport:
    """Raises ReportError."""
    try:
        report = _DECODER.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"this is no gateway report: {error}") from error
    for path, number in _numbers("$", msgspec.to_builtins(report)):
        bound = _BOUNDS.get(path, _MAX_NUMBER)
        if not 0 <= number <= bound:
            raise ReportError(
                f"this is no gateway report: a number between 0 and {bound} belongs at `{path}`, "
                f"got {number}"
            )
    return report


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
