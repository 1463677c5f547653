"""The menu: the pages that whoever is calling may open."""

from controlplane.access.principal import Principal
from controlplane.api.authorization import find_refusal

_PAGES = (
    ("/", "overview", "Overview"),
    ("/incidents", "incidents", "Incidents"),
    ("/slo", "slo", "SLO"),
    ("/deployments", "deployments", "Deployments"),
    ("/rollouts", "rollouts", "Rollouts"),
    ("/requests", "requests", "Requests"),
    ("/usage", "usage", "Usage"),
    ("/break-glass", "break-glass", "Break-glass"),
    ("/config", "config", "Config"),
    ("/audit", "audit", "Audit"),
    ("/access", "access", "Access"),
)


_KEYS = {"access": "x", "rollouts": "l"}
"""Where another page has the first letter."""


def key_of(page: str) -> str:
    """The letter that opens it, after g."""
    return _KEYS.get(page, page[0])


def menu_of(principal: Principal | None) -> list[tuple[str, str, str]]:
    """Path, key and text of each; nothing for who is not known yet."""
    if principal is None:
        return []
    pages = _PAGES[1:] if principal.tenant is not None else _PAGES
    return [page for page in pages if find_refusal(principal, "GET", page[0]) is None]
