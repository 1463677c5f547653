"""Use and cost on a terminal."""

from rich.table import Table
from rich.text import Text

from controlplane.api.usage_views import Cost, UsageRow, UsageView, Used
from controlplane.cli.terminal import printable
from controlplane.console.formatting import UNKNOWN, money, share

_NAMES = {"deployment": "deployment", "class": "request_class", "tenant": "tenant"}


def usage_table(view: UsageView) -> Table:
    """A row for each group, and one for all."""
    has_cost = any(row.cost is not None for row in view.rows)
    table = _table(view.by)
    numbers = ["requests", "in contract", "input", "cached", "output", "engine s", "kv block-s"]
    for name in numbers + (["cost", "per in-contract"] if has_cost else []):
        table.add_column(name, justify="right", no_wrap=True)
    for row in view.rows:
        names = [_name(row, group) for group in view.by]
        costs = _costs(row.cost) if has_cost else []
        table.add_row(*_cells([*names, *_numbers(row.used), *costs]))
    if len(view.rows) > 1:
        blanks = [""] * (len(view.by) - 1)
        cells = ["all", *blanks, *_numbers(view.total), *([""] * (2 if has_cost else 0))]
        table.add_row(*_cells(cells), style="bold")
    return table


def deployment_table(view: UsageView) -> Table:
    """What the replicas of each deployment cost, whoever used them."""
    table = _table(["deployment"])
    for name in ("replica-hours", "engine s", "idle", "cost", "per in-contract"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in view.deployments:
        idle = UNKNOWN if each.idle_share is None else str(share(each.idle_share))
        numbers = [f"{each.replica_seconds / 3600:,.2f}", _seconds(each.engine_seconds), idle]
        table.add_row(*_cells([each.deployment, *numbers, *_costs(each.cost)]))
    return table


def usage_notes(view: UsageView) -> list[str]:
    """What the tables cannot show, a line each."""
    notes = []
    if view.num_rows_left_out:
        notes.append(f"{view.num_rows_left_out} rows are left out: ask for less with --by")
    if view.total.num_unmetered:
        notes.append(
            f"{view.total.num_unmetered} requests were not measured: their gateway ended first"
        )
    for each in view.deployments:
        if each.cost.why_unknown is not None:
            notes.append(f"{each.deployment}: cost unknown: {each.cost.why_unknown}")
        if each.why_no_idle_share is not None:
            notes.append(f"{each.deployment}: idle share unknown: {each.why_no_idle_share}")
    return notes


def _table(names: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, min_width=4, overflow="ellipsis")
    return table


def _cells(texts: list[str]) -> list[Text]:
    return [Text(printable(text), no_wrap=True) for text in texts]


def _name(row: UsageRow, group: str) -> str:
    name: str | None = getattr(row, _NAMES[group])
    return name or UNKNOWN


def _numbers(used: Used) -> list[str]:
    is_inferred = bool(used.engine_seconds_inferred)
    return [
        f"{used.num_offered:,}",
        "–" if used.num_in_contract is None else f"{used.num_in_contract:,}",
        f"{used.input_tokens:,}",
        f"{used.cached_tokens:,}",
        f"{used.output_tokens:,}",
        ("~" if is_inferred else "") + _seconds(used.engine_seconds),
        _seconds(used.kv_block_seconds),
    ]


def _seconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds:,.1f}"


def _costs(cost: Cost | None) -> list[str]:
    if cost is None or cost.amount is None:
        return [UNKNOWN, UNKNOWN]
    per = cost.per_in_contract
    return [
        str(money(cost.amount, cost.currency)),
        "–" if per is None else str(money(per, cost.currency)),
    ]
