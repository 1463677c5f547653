"""Where an alert sends who reads it."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Of one installation: both lead to the console, which ships with the rules."""

    console_url: str
    """As people's browsers reach it."""

    def runbook(self, name: str) -> str:
        """One page of ops/runbooks, by its name."""
        return f"{self.console_url.rstrip('/')}/runbooks/{quote(name)}"

    def page(self, path: str) -> str:
        """One of its pages, as it stands: also with templates of Prometheus in it."""
        return f"{self.console_url.rstrip('/')}/{path}"

    def budget(self, deployment: str) -> str:
        """Where its objectives, what is left of their budgets and who spent it are drawn."""
        return f"{self.console_url.rstrip('/')}/slo/{quote(deployment)}"

    def deployment(self, name: str) -> str:
        """Where one deployment is drawn."""
        return f"{self.console_url.rstrip('/')}/deployments/{quote(name)}"
