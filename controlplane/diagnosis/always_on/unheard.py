"""Calls in a row that nothing answered, of one server."""

from dataclasses import dataclass, replace

from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.operator.page_look import Silence


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheard:
    """How it stands after the last call; by default it is answered."""

    silence: Silence | None = None
    since: float | None = None
    """The first of them, in Unix seconds."""
    num: int = 0
    why: str = ""
    """What came of the last call in place of an answer."""
    health: str = ""
    """What its health page gave then, where its port takes connections."""

    def after(self, scraped: ScrapedPage, at: float) -> "Unheard":
        """With one more call. An answer of any kind ends the silence."""
        if scraped.silence is None:
            return Unheard()
        if self.silence is Silence.TAKEN and scraped.silence is Silence.LOST:
            # Calls that a frozen process does not take up wait in its queue, which is soon full.
            return replace(self, num=self.num + 1)
        return Unheard(
            silence=scraped.silence,
            since=at if self.since is None else self.since,
            num=self.num + 1,
            why=scraped.why,
            health=scraped.health,
        )
