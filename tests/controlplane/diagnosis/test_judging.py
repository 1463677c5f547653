"""Which verdict is the answer."""

from collections.abc import Callable

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.json_form import diagnosis_as_json
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

WINDOW = Window(start=0, end=60)


def rule(
    mechanism: Mechanism,
    confidence: Confidence | None,
    *needs: str,
    explains: frozenset[Mechanism] = frozenset(),
) -> Rule:
    return Rule(
        id=mechanism.value,
        mechanism=mechanism,
        judge=_says(confidence, f"saw {mechanism}", needs),
        needs=("everything",),
        told_apart="by hand",
        remedy="wait",
        hides="nothing",
        explains=explains,
    )


def _says(
    confidence: Confidence | None, what: str, needs: tuple[str, ...]
) -> Callable[[Window], Verdict | None]:
    if confidence is None:
        return lambda window: None
    verdict = Verdict(confidence=confidence, evidence=(what,), needs=needs)
    return lambda window: verdict


def test_the_surest_verdict_is_the_answer_and_of_two_equals_the_earlier_rule() -> None:
    rules = [
        rule(Mechanism.QUEUE_OVERLOAD, Confidence.LIKELY),
        rule(Mechanism.CACHE_THRASH, Confidence.CERTAIN),
        rule(Mechanism.HOST_BOUND, Confidence.CERTAIN),
    ]
    diagnosis = diagnose(WINDOW, rules)
    assert diagnosis.mechanism is Mechanism.CACHE_THRASH
    assert diagnosis.confidence is Confidence.CERTAIN
    assert [finding.mechanism for finding in diagnosis.findings] == [
        Mechanism.CACHE_THRASH,
        Mechanism.HOST_BOUND,
        Mechanism.QUEUE_OVERLOAD,
    ]


def test_a_consequence_steps_back_behind_its_cause_even_where_it_is_surer() -> None:
    rules = [
        rule(Mechanism.QUEUE_BLOCKED, Confidence.CERTAIN),
        rule(
            Mechanism.QUEUE_NEVER_FITS,
            Confidence.LIKELY,
            explains=frozenset({Mechanism.QUEUE_BLOCKED}),
        ),
    ]
    diagnosis = diagnose(WINDOW, rules)
    assert diagnosis.mechanism is Mechanism.QUEUE_NEVER_FITS
    assert [finding.mechanism for finding in diagnosis.explained] == [Mechanism.QUEUE_BLOCKED]


def test_what_is_only_possible_explains_nothing() -> None:
    rules = [
        rule(Mechanism.QUEUE_BLOCKED, Confidence.LIKELY),
        rule(
            Mechanism.QUEUE_NEVER_FITS,
            Confidence.POSSIBLE,
            explains=frozenset({Mechanism.QUEUE_BLOCKED}),
        ),
    ]
    assert diagnose(WINDOW, rules).mechanism is Mechanism.QUEUE_BLOCKED


def test_where_nothing_is_likely_it_cannot_be_told_and_the_possible_ones_say_what_is_needed() -> (
    None
):
    rules = [
        rule(Mechanism.QUEUE_BLOCKED, Confidence.POSSIBLE, "a probe", "in flight"),
        rule(Mechanism.TELEMETRY_STALE, Confidence.POSSIBLE, "in flight"),
        rule(Mechanism.HEALTHY, None),
    ]
    diagnosis = diagnose(WINDOW, rules)
    assert diagnosis.mechanism is Mechanism.CANNOT_TELL
    assert diagnosis.confidence is None
    assert diagnosis.needs == ("a probe", "in flight")

    answer = diagnosis_as_json(diagnosis)
    assert answer["mechanism"] == "cannot_tell"
    assert answer["confidence"] is None
    first = answer["findings"][0]
    assert first["mechanism"] == "cannot_tell"
    assert first["needs"] == ["a probe", "in flight"]
    assert first["evidence"] == ["saw queue.blocked", "saw telemetry.stale"]


def test_a_mechanism_that_two_rules_find_is_told_once_by_the_surer() -> None:
    rules = [
        rule(Mechanism.TELEMETRY_STALE, Confidence.LIKELY, "the weaker look"),
        rule(Mechanism.TELEMETRY_STALE, Confidence.CERTAIN, "the surer look"),
        rule(Mechanism.TELEMETRY_STALE, Confidence.POSSIBLE),
        rule(Mechanism.ENGINE_HUNG, Confidence.POSSIBLE, "a probe"),
        rule(Mechanism.ENGINE_HUNG, Confidence.POSSIBLE, "in flight"),
    ]
    diagnosis = diagnose(WINDOW, rules)
    assert [finding.mechanism for finding in diagnosis.findings] == [Mechanism.TELEMETRY_STALE]
    assert diagnosis.needs == ("the surer look",)
    assert [finding.mechanism for finding in diagnosis.possible] == [Mechanism.ENGINE_HUNG]

    unsettled = diagnose(WINDOW, rules[3:])
    assert unsettled.needs == ("a probe", "in flight")


def test_where_nothing_was_seen_at_all_it_asks_for_metrics_and_the_log() -> None:
    diagnosis = diagnose(WINDOW, [rule(Mechanism.HEALTHY, None)])
    assert diagnosis.mechanism is Mechanism.CANNOT_TELL
    assert diagnosis.needs == (
        "the engine's metrics, twice, a minute apart",
        "the engine's log around that time",
    )
    assert diagnosis.seen == ()
