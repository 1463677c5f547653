"""What an alert's budget was spent by, as API, console and terminal show it."""

from dataclasses import dataclass, replace

from controlplane.api.request_views import RequestSummary
from controlplane.api.slo_views import StandingView


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentView:
    """The budget of one objective that alerts tell of, and the requests that spent it."""

    request_class: str
    objective: str
    """A signal, or together."""
    since_unix_ns: int
    """What the alerts looked back on when they fired is part of it."""
    until_unix_ns: int
    requests_query: str
    """For /requests: all of them."""
    requests: list[RequestSummary]
    """The last of them."""
    has_more: bool
    standing: StandingView | None
    """How the objective stands now; None: the incident is over, or no contract promises it now."""

    def with_requests(self, requests: list[RequestSummary], *, has_more: bool) -> "SpentView":
        """The same with the last of its requests."""
        return replace(self, requests=requests, has_more=has_more)


def how_it_stands(standing: StandingView) -> str:
    """For people: `burns at 12.3 times the pace that it bears over 1h, 61 % is left`."""
    burn = next((each.burn_rate for each in standing.burns if each.window == "1h"), None)
    pace = "an unknown rate" if burn is None else f"{burn:,.1f} times the pace that it bears"
    left = standing.budget_remaining
    remaining = "what is left is unknown" if left is None else f"{left * 100:,.0f} % is left"
    return f"burns at {pace} over 1h, {remaining}"
