"""Pages that stand still while answers come from behind them."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.standstill import cite, standstill_of
from controlplane.diagnosis.window import Window


def judge(window: Window) -> Verdict | None:
    """LIKELY where more is answered than the pages that move account for."""
    found = standstill_of(window)
    if found is None or found.is_working is False or not found.holds_work:
        return None  # whoever has nothing to do stands still as well
    if {each.name for each in found.replicas} & _pageless(window):
        return None  # a page that is not there does not stand still
    argument = Argument(window)
    cite(argument, found)
    names = ", ".join(each.name for each in found.replicas)
    if found.is_working:
        argument.against("engine.hung: what stands still is the page, answers go on")
        return argument.verdict(Confidence.LIKELY, detail=names)
    argument.need("a one-token probe of each replica", "requests in flight by replica")
    return argument.verdict(Confidence.POSSIBLE, detail=names)


def _pageless(window: Window) -> set[str | None]:
    return {fact.part for fact in window.facts_of("shows no page since")}


STILL_PAGE = Rule(
    id="fleet-stale-replica",
    mechanism=Mechanism.TELEMETRY_STALE,
    judge=judge,
    needs=("series of each replica over time", "answers counted at the gateway"),
    told_apart="From engine.hung by answers that the gateway counts and no page that moves "
    "accounts for.",
    remedy="Do not route or scale by this replica's figures; find what stands between its exporter "
    "and the scraper (a cache, a proxy, a scraper that repeats).",
    hides="Restarting the scraper makes the page move again and hides which hop repeated it.",
    explains=frozenset({Mechanism.ENGINE_HUNG, Mechanism.ROUTING_SKEW, Mechanism.QUEUE_BLOCKED}),
)
