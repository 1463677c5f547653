"""What a panel asks Prometheus, written from the names that our processes export."""

from dataclasses import dataclass

from dataplane import names

INTERVAL = "$__rate_interval"
"""Grafana's: at least four scrapes, so that a rate always has its two samples."""
OF_DEPLOYMENT = f'{names.LABEL_DEPLOYMENT}=~"$deployment"'
OF_CLASS = f'{names.LABEL_REQUEST_CLASS}=~"$class"'
AT_BOUNDARY = f'{names.LABEL_BOUNDARY}="$boundary"'
SCOPE = (OF_DEPLOYMENT, OF_CLASS)
"""What the variables of a dashboard choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One expression, and what its series are called."""

    expr: str
    legend: str
    """With labels in double braces. Empty in a table, where each label is a column."""
    is_promise: bool = False
    """Drawn as a line that others are held against."""
    has_exemplars: bool = False
    """Points that lead to single requests are drawn on it."""


def series(name: str, *matchers: str) -> str:
    """A series with all its matchers."""
    return f"{name}{{{', '.join(matchers)}}}" if matchers else name


def label_is(label: str, value: str) -> str:
    """A matcher. `value` holds no quotes and no backslashes, as names in config do not."""
    return f'{label}="{value}"'


def per_second(counter: str, *matchers: str, by: tuple[str, ...] = ()) -> str:
    """How fast a counter counts, added up over processes."""
    return f"sum{_by(by)} (rate({series(counter, *matchers)}[{INTERVAL}]))"


def total(gauge: str, *matchers: str, by: tuple[str, ...] = ()) -> str:
    """A gauge, added up over processes."""
    return f"sum{_by(by)} ({series(gauge, *matchers)})"


def quantile(share: float, histogram: str, *matchers: str, by: tuple[str, ...] = ()) -> str:
    """The value that `share` of what was observed stays under, added up over processes before."""
    counted = per_second(f"{histogram}_bucket", *matchers, by=("le", *by))
    return f"histogram_quantile({share:g}, {counted})"


def or_zero(expr: str, job: str) -> str:
    """For counters and gauges that come into being with the first case: 0 where processes of `job`
    are scraped and tell of none, and still nothing where none is."""
    return f'({expr}) or on () (0 * max(up{{job="{job}"}} == 1))'


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
