"""The last diagnosis of a deployment, as API, console and terminal show it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRule:
    """A rule that failed when it looked, and said nothing for that."""

    rule_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisView:
    """What the rules last said of one deployment."""

    as_of_unix_ns: int
    deployment: str
    is_on: bool
    """Whether deployments are diagnosed all the time."""
    looked_at_unix_ns: int | None
    age_seconds: float | None
    """Of the answer."""
    mechanism: str | None
    meaning: str
    confidence: str | None
    diagnosis: dict[str, Any] | None
    """All of it, in the form of `pilothouse diagnose -o json`; None: there is none."""
    why_none: str | None
    """Why there is none; None: there is one."""
    num_replicas: int
    """That ran when it was made."""
    num_telling: int
    """Of them, those whose metrics it is by: of a large fleet a few are asked in one turn."""
    silent: dict[str, str]
    """Why nothing was known of a replica, by replica."""
    failed_rules: list[FailedRule]
    incident_id: str | None
    """The newest that is open."""

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The surest first; where it cannot be told, the first says what is lacking."""
        return self.diagnosis["findings"] if self.diagnosis else []

    @property
    def needs(self) -> list[str]:
        """What would settle it."""
        return self.diagnosis["needs"] if self.diagnosis else []

    @property
    def since_unix_ns(self) -> int | None:
        """When the signal that tells it changed its level; None where that could not be seen."""
        since = self.diagnosis["since"] if self.diagnosis else None
        return None if since is None else round(since["at"] * 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisList:
    """Of every deployment of which something runs."""

    as_of_unix_ns: int
    is_on: bool
    error: str | None
    """Why the last pass over all of them failed; None when it did not."""
    diagnoses: list[DiagnosisView]
