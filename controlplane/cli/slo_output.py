"""How promises stand, on a terminal."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from controlplane.api.quantities import age
from controlplane.api.slo_views import StandingList, StandingView
from controlplane.cli.silence_output import kept_back_line
from controlplane.cli.terminal import printable
from controlplane.console.formatting import UNKNOWN, budget_share, burn, duration, share
from controlplane.slo.burn_rate import percent

_WINDOWS = ("5m", "1h", "6h", "3d")
"""Of a table; the API answers all of them."""


def standing_table(view: StandingList) -> Table:
    """A row for each promise."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("deployment", "class", "objective", "state"):
        table.add_column(name)
    for name in ("promised", *(f"burn {window}" for window in _WINDOWS), "budget left"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("fires")
    for standing in view.standings:
        table.add_row(*(Text(printable(cell)) for cell in _cells(standing)))
    return table


def status_notes(view: StandingList) -> list[str]:
    """What the table cannot show, a line each."""
    return [
        *(
            f"{each.deployment} {each.request_class} {each.objective}: {sentence}"
            for each in view.standings
            for sentence in (*each.left_out, *each.notes)
        ),
        *_coverage(view),
        *(kept_back_line(each) for each in view.silences),
        *_maintenance(view),
        *(f"{name} is under no contract: nothing is promised" for name in view.unpromised),
        *([] if view.standings or view.unpromised else ["There is no deployment"]),
    ]


def _coverage(view: StandingList) -> list[str]:
    """Where a budget is not yet of its whole period, a line for each deployment and period."""
    young = {
        (each.deployment, each.period_seconds, each.covered_seconds): None
        for each in view.standings
        if each.covered_seconds is not None and each.covered_seconds < each.period_seconds
    }
    return [
        f"{name}: what is left of its budgets of {age(period)} is of the last "
        f"{age(covered)}, which is as far as counts go back"
        for name, period, covered in young
    ]


def _maintenance(view: StandingList) -> list[str]:
    """What was spent in planned maintenance, which is part of what is spent."""
    return [
        f"{each.deployment} {each.request_class} {each.objective}: of what is spent, "
        f"{share(spent.share_of_spent)} in maintenance"
        for each in view.standings
        if (spent := each.maintenance) is not None and spent.share_of_spent is not None
    ]


def _cells(standing: StandingView) -> Iterable[str]:
    bound = standing.at_most_seconds
    limit = "" if bound is None else f" <= {duration(bound)}"
    burns = {burn.window: burn.burn_rate for burn in standing.burns}
    yield standing.deployment
    yield standing.request_class
    yield f"{standing.objective}{limit}"
    yield standing.state.replace("_", " ")
    yield percent(standing.target)
    for window in _WINDOWS:
        yield burn(burns.get(window)) or UNKNOWN
    yield str(budget_share(standing.budget_remaining) or UNKNOWN)
    yield ", ".join(
        f"{each.grade} (silenced)" if each.silenced else each.grade for each in standing.firing
    )
