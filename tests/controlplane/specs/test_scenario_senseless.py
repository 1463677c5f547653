"""What would be ignored in silence, or never end, is named with its line and a remedy."""

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.specs.test_scenario import as_text, example, problems_of, read


def promise_to(name: str) -> Any:
    def change(spec: dict[str, Any]) -> None:
        [terms] = spec["contract"]["classes"].values()
        spec["contract"]["classes"][name] = terms

    return change


@pytest.mark.parametrize(
    ("change", "place", "what"),
    [
        (
            promise_to("interactiv"),
            "spec.contract.classes.interactiv:",
            "no class of the policy; did you mean interactive? There are: interactive, batch",
        ),
        (
            lambda s: s["policy"].update(
                overload={"degrade": {"when": "queue_age > 1s", "fallback": "small"}}
            ),
            "spec.policy.overload.degrade.fallback:",
            "nothing could ever fall back to small; leave it out",
        ),
        (
            lambda s: s["policy"].update(routing={"policy": "two_choice"}),
            "spec.policy.routing.policy:",
            "did you mean two_choices? There are: two_choices, least_outstanding, prefix",
        ),
        (
            lambda s: s["arrivals"][1].update(start="200s"),
            "spec.arrivals[1].start:",
            "until 3m: none would come; start earlier, or raise duration",
        ),
        (
            lambda s: s.update(faults=[{"fault": "hung_replica", "at": "3m"}]),
            "spec.faults[0].at:",
            "hung_replica begins at 3m, and requests arrive until 3m; let it begin earlier",
        ),
        (
            lambda s: s["arrivals"][0].update(poisson="1000000000/s"),
            "spec.arrivals[0]:",
            "about 450,000,000,",
        ),
        (
            lambda s: s["arrivals"][0].update(poisson="1000000000/s"),
            "spec.arrivals[0]:",
            "most of them of chat, and the most is 100,000,000; lower its rate, its turns, the",
        ),
    ],
)
def test_what_would_do_nothing_or_never_end_is_named(change: Any, place: str, what: str) -> None:
    [problem] = problems_of(change)
    assert place in problem
    assert what in problem


def test_every_such_part_is_named_at_once() -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["arrivals"][0]["start"] = "1h"
        spec["faults"] = [{"fault": "hung_replica", "at": "1h"}]

    assert len(problems_of(change)) == 2


def test_a_run_of_millions_is_possible() -> None:
    document = example()
    document["spec"]["arrivals"][0]["poisson"] = "200000/s"  # 90 million, in 2.5 turns each
    found, problems = read(as_text(document), Path())
    assert not problems
    assert found is not None
