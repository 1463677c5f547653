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
