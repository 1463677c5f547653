"""How closely deployments are looked at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysOnSettings:
    """One control plane's; read once. The bounds hold for all deployments together, so that a
    large fleet makes looks rarer and never the control plane slow."""

    is_on: bool = True
    rule_plugins: tuple[str, ...] = ()
    """Plugins whose rules go before the built-in ones."""
    pass_seconds: float = 5.0
    """Between two rounds of scrapes."""
    look_seconds: float = 15.0
    """Between two looks of the rules at one deployment."""
    judged_seconds: float = 75.0
    """The newest part of what was seen, which is what rules judge: what is over is no trouble, and
    rules are made for about a minute."""
    keep_seconds: float = 600.0
    """How long what was seen is kept, to find since when something is so."""
    max_scrapes: int = 100
    """In one pass. With more replicas than that they take turns (`rota`), suspects before the
    rest, and fewer are asked at once where that costs too much (`pace`)."""
    cpu_share: float = 0.08
    """Of one core, on the average: what passes over such a large fleet may take in their thread;
    with what other threads do for them a tenth."""
    max_concurrent: int = 16
    scrape_deadline_seconds: float = 2.0
    max_page_bytes: int = 4 * 2**20
    """A longer page is not read."""
    max_look_seconds: float = 1.0
    """What all looks of one pass may take; who had none is first in the next one."""
    calm_seconds: float = 60.0
    """An incident of which nothing is seen for so long is over, and so are those of a deployment of
    which nothing runs any more."""
