"""Rules of Prometheus as plain data, and their file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.slo.prometheus.rule_lines import lines_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """One series that Prometheus keeps by evaluating `expr`."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {"record": self.record, "expr": _text(self.expr), **_labels(self.labels)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One alert: it fires for every series that `expr` gives."""

    alert: str
    expr: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """summary, description, runbook_url, dashboard_url."""
    for_seconds: int = 0

    def document(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        waits = {"for": f"{self.for_seconds}s"} if self.for_seconds else {}
        return {
            "alert": self.alert,
            "expr": _text(self.expr),
            **waits,
            **_labels(self.labels),
            "annotations": dict(self.annotations),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup:
    """Rules that are evaluated one after the other, at the same moments."""

    name: str
    interval_seconds: int
    rules: Sequence[RecordingRule | AlertRule]

    def document(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {
            "name": self.name,
            "interval": f"{self.interval_seconds}s",
            "rules": [rule.document() for rule in self.rules],
        }


def render(groups: Sequence[RuleGroup], heading: Sequence[str]) -> str:
    """A file of rules, its heading as comments."""
    comments = (f"# {line}\n" if line else "#\n" for line in heading)
    return "".join((*comments, *lines_of({"groups": [group.document() for group in groups]})))


def _text(expr: str) -> str:
    return expr + "\n" if "\n" in expr else expr


def _labels(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"labels": dict(labels)} if labels else {}
