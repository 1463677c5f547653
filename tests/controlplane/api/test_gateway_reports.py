"""What a gateway's report may say, in numbers."""

from typing import Any

import msgspec
import pytest

from controlplane.api.gateway_reports import ReportError, decode_report
from controlplane.operator.publisher import MAX_FOLLOWED_VERSION

REPORT: dict[str, Any] = {
    "gateway_id": "gateway-0-1",
    "name": "gateway-0",
    "address": "http://127.0.0.1:1",
    "started_at_unix_ns": 1_796_000_000 * 10**9,
    "reported_at_unix_ns": 1_796_000_000 * 10**9,
    "snapshot_version": 1,
    "snapshot_error": None,
    "counts": dict.fromkeys(
        ("arrived", "invalid", "undecided", "rejected", "admitted", "active", "finished"), 0
    ),
    "num_queued": 0,
    "oldest_queued_seconds": None,
    "num_records_spooled": 0,
    "num_records_lost": 0,
    "num_queued_by_deployment": {"chat": 1},
    "replicas": [
        {
            "replica_id": "chat-1",
            "is_connected": True,
            "num_outstanding": 2,
            "stats": {"age_seconds": 0.5, "ledger": {"weights": 7 * 10**9}},
        }
    ],
}


def put(path: tuple[str | int, ...], value: object) -> bytes:
    """The report with one value of it replaced."""
    report: Any = msgspec.json.decode(msgspec.json.encode(REPORT))
    place = report
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return msgspec.json.encode(report)


def test_a_report_of_an_ordinary_gateway_is_taken() -> None:
    report = decode_report(msgspec.json.encode(REPORT))
    assert report.replicas[0].num_outstanding == 2


def test_a_gateway_may_go_on_counting_above_the_last_version_that_is_followed() -> None:
    report = decode_report(put(("snapshot_version",), MAX_FOLLOWED_VERSION + 10**9))
    assert report.snapshot_version == MAX_FOLLOWED_VERSION + 10**9


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("snapshot_version",), 2**63 - 1, "$.snapshot_version"),
        (("snapshot_version",), -1, "$.snapshot_version"),
        (("reported_at_unix_ns",), 2**63, "$.reported_at_unix_ns"),
        (("num_queued",), 2**63 - 1, "$.num_queued"),
        (("oldest_queued_seconds",), 1e300, "$.oldest_queued_seconds"),
        (("counts", "active"), -1, "$.counts.active"),
        (("num_queued_by_deployment", "chat"), 2**60, "$.num_queued_by_deployment.chat"),
        (("replicas", 0, "num_outstanding"), 2**60, "$.replicas[0].num_outstanding"),
        (("replicas", 0, "stats", "ledger", "weights"), 2**60, "$.replicas[0].stats.ledger"),
    ],
)
def test_a_number_out_of_bounds_is_refused_by_its_path(
    path: tuple[str | int, ...], value: object, named: str
) -> None:
    with pytest.raises(ReportError) as refused:
        decode_report(put(path, value))
    assert named in str(refused.value)


def test_what_is_no_text_at_all_is_refused() -> None:
    with pytest.raises(ReportError, match="no gateway report"):
        decode_report(b'{"name": "\xff"}')
