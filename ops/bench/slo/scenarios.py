"""The traffic on which the alerts are tried."""

from dataclasses import replace
from typing import Any

from ops.bench.slo.traffic import HOUR, MINUTE, SCRAPE_SECONDS, Phase, Scenario

_WELL = Phase(seconds=0, bad_share=0.0002)
"""Twenty requests a second, of which one in five thousand is bad: a fifth of the strictest budget
that is tried."""
_OUT = Phase(seconds=10 * MINUTE, bad_share=1.0)
_REGRESSION = Phase(seconds=3 * HOUR, bad_share=0.02)
_ONE_A_MINUTE = Phase(seconds=0, per_minute=1)


def scenarios(before_seconds: int, after_seconds: int) -> tuple[Scenario, ...]:
    """With so much history before, and so long to watch after."""
    usual = replace(_WELL, seconds=before_seconds)
    rare = replace(_ONE_A_MINUTE, seconds=before_seconds)

    def scenario(name: str, *trouble: Phase, before: Phase = usual, **hidden: Any) -> Scenario:
        return Scenario(
            name=name, trouble=trouble, before=before, after_seconds=after_seconds, **hidden
        )

    return (
        scenario("steady", replace(_WELL, seconds=10 * MINUTE)),
        scenario("2 % bad for 3 h", _REGRESSION),
        scenario("outage of 10 min", _OUT),
        scenario("blip of 30 s", replace(_OUT, seconds=30)),
        scenario("1 request a minute", replace(rare, seconds=10 * MINUTE), before=rare),
        scenario(
            "1 request a minute, one fails",
            replace(rare, seconds=MINUTE, bad_share=1.0),
            before=rare,
        ),
        scenario(
            "2 % bad for 3 h, the gateway restarts thrice",
            _REGRESSION,
            restarts=(20 * MINUTE, 61 * MINUTE, 2 * HOUR + 7),
        ),
        scenario(
            "a replica restarts: 20 s all bad, then half for 40 s",
            replace(_OUT, seconds=20),
            replace(_OUT, seconds=40, bad_share=0.5),
        ),
        scenario(
            "steady, no scrapes for 10 min",
            replace(_WELL, seconds=10 * MINUTE),
            unscraped=((0, 10 * MINUTE),),
        ),
        scenario(
            "outage of 10 min, no scrapes in its first 5",
            _OUT,
            unscraped=((SCRAPE_SECONDS, 5 * MINUTE),),
        ),
    )
