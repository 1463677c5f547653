"""Lists of requests on a terminal: those that ended, and those in flight."""

from rich.table import Table
from rich.text import Text

from controlplane.api.live import LiveRequest, LiveRequests
from controlplane.api.request_views import RequestPage, RequestSummary
from controlplane.cli.terminal import printable
from controlplane.console.formatting import clock_time, duration, short_id


def request_table(page: RequestPage) -> Table:
    """Ended requests, the newest first."""
    table = _table()
    # Only names may be cut on a narrow terminal: an id or a number that is cut says nothing.
    for name, width in (("arrived, UTC", 12), ("request", 10), ("ended", 9), ("contract", 8)):
        table.add_column(name, no_wrap=True, min_width=width)
    for name in ("deployment", "tenant"):
        table.add_column(name, min_width=4, overflow="ellipsis")
    for name in ("ttft", "e2e", "in/out"):
        table.add_column(name, justify="right", no_wrap=True, min_width=6)
    for each in page.requests:
        table.add_row(*_cells(_ended(each, page.as_of_unix_ns)))
    return table


def live_table(live: LiveRequests) -> Table:
    """Requests in flight, the oldest first."""
    table = _table()
    for name, width in (("request", 10), ("state", 8)):
        table.add_column(name, no_wrap=True, min_width=width)
    for name in ("waits for", "deployment", "tenant", "replica"):
        table.add_column(name, min_width=4, overflow="ellipsis")
    for name in ("age", "in/out"):
        table.add_column(name, justify="right", no_wrap=True, min_width=6)
    for each in live.requests:
        table.add_row(*_cells(_in_flight(each)))
    return table


def _ended(each: RequestSummary, now_unix_ns: int) -> list[str]:
    absent = "?" if each.is_end_unseen else "–"
    contract = {None: "○", True: "kept", False: "◆ missed"}[each.in_contract]
    return [
        clock_time(each.arrived_at_unix_ns, now_unix_ns),
        short_id(each.request_id),
        each.disposition,
        contract,
        each.deployment or "unknown",
        each.tenant or "unknown",
        _seconds(each.ttft_seconds, absent),
        _seconds(each.e2e_seconds, absent),
        f"{_count(each.num_prompt_tokens)}/{_count(each.num_output_tokens)}",
    ]


def _in_flight(each: LiveRequest) -> list[str]:
    return [
        short_id(each.request_id),
        each.state if each.queue_position is None else f"{each.state} #{each.queue_position}",
        _wait(each),
        each.deployment or "unknown",
        each.tenant or "unknown",
        each.replica_id or "none yet",
        _seconds(each.age_seconds),
        f"{_count(each.num_prompt_tokens)}/{_count(each.num_output_tokens)}",
    ]


def _wait(each: LiveRequest) -> str:
    age = each.queue_age_seconds
    return each.waits_for if age is None else f"{each.waits_for}, for {duration(age)}"


def _table() -> Table:
    # One space between columns: with two, the last one is cut on a terminal of 80.
    return Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")


def _cells(texts: list[str]) -> list[Text]:
    # Text, because what a caller chose must never be read as markup. That a cell never wraps
    # stands here and not at its column: columns that do not wrap are not made narrower either.
    return [Text(printable(text), no_wrap=True) for text in texts]


def _seconds(seconds: float | None, absent: str = "–") -> str:
    return absent if seconds is None else str(duration(seconds))


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)
