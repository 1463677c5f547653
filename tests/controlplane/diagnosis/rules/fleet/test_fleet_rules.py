"""What several replicas and their gateway show together, each beside what it is told apart from."""

from collections.abc import Callable, Sequence

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rules.fleet import RULES as FLEET
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.window import Doubt, DoubtKind, Window
from dataplane.engine_metrics.signal import Signal

EVERY, END = 2.0, 90.0
ONSET = 30.0
MOMENTS = [EVERY * index for index in range(round(END / EVERY) + 1)]
Course = Callable[[float], float]

RULES = (HUNG, *FLEET)


def gauge(signal: Signal, course: Course, replica: str = "", until: float = END) -> Series:
    """Of a replica, or of the gateway where none is named."""
    kind = SourceKind.METRICS if replica else SourceKind.GATEWAY
    readings = tuple(Reading(at, course(at), f"{course(at):g}") for at in MOMENTS if at <= until)
    return Series(
        signal=signal,
        origin=Origin(kind=kind, name=signal.value, place=replica),
        readings=readings,
        labels={"replica": replica} if replica else {},
    )


def counter(signal: Signal, rate: Course, replica: str = "") -> Series:
    """Rises by `rate` a second."""
    totals, total = {}, 1000.0
    for at in MOMENTS:
        totals[at] = total
        total += rate(at) * EVERY
    return gauge(signal, lambda at: totals[at], replica)


def switched(before: float, after: float) -> Course:
    return lambda at: before if at < ONSET else after


def same(value: float) -> Course:
    return lambda at: value


def wobble(mean: float) -> Course:
    """Never the same twice in a row, as gauges of a batch that works."""
    return lambda at: mean + (round(at / EVERY) % 3) - 1


def found(window: Window) -> dict[Mechanism, Confidence]:
    """What the rules say."""
    return {
        rule.mechanism: verdict.confidence
        for rule in RULES
        if (verdict := rule.judge(window)) is not None
    }


def fleet(*series: Series, facts: Sequence[Fact] = (), doubts: Sequence[Doubt] = ()) -> Window:
    names = frozenset(each.origin.name for each in series)
    return Window(
        start=0,
        end=END,
        series=series,
        facts=tuple(facts),
        doubts=tuple(doubts),
        exported_names=names,
    )


def working(replica: str, tokens: float = 100.0, finished: float = 3.0) -> list[Series]:
    return [
        gauge(Signal.RUNNING, wobble(5), replica),
        gauge(Signal.WAITING, same(0), replica),
        gauge(Signal.KV_USAGE, lambda at: 0.2 + at / 1000, replica),
        counter(Signal.GENERATION_TOKENS, same(tokens), replica),
        counter(Signal.COMPUTED_PROMPT_TOKENS, same(tokens), replica),
        counter(Signal.FINISHED, same(finished), replica),
    ]


def frozen(replica: str) -> list[Series]:
    """From the onset on nothing of it changes."""
    return [
        gauge(Signal.RUNNING, lambda at: 4.0 + (at < ONSET) * (at % 4) / 2, replica),
        counter(Signal.GENERATION_TOKENS, switched(100, 0), replica),
        counter(Signal.FINISHED, switched(3, 0), replica),
    ]


def gateway(ended: Course, arrived: Course, in_flight: Course) -> list[Series]:
    return [
        counter(Signal.GATEWAY_ENDED, ended),
        counter(Signal.GATEWAY_ARRIVED, arrived),
        gauge(Signal.GATEWAY_IN_FLIGHT, in_flight),
    ]


def test_a_moment_is_no_course() -> None:
    moment = [
        Series(
            signal=each.signal, origin=each.origin, readings=each.readings[:1], labels=each.labels
        )
        for each in (*working("a"), *working("b"), *gateway(same(6), same(6), wobble(10)))
    ]
    assert found(Window(start=0, end=0, series=tuple(moment))) == {}


def test_a_fleet_that_works_is_no_case() -> None:
    series = [*working("a"), *working("b"), *gateway(same(6), same(6), wobble(10))]
    assert found(fleet(*series)) == {}


def test_a_replica_that_stands_still_while_others_do_all_is_hung() -> None:
    series = [*working("a"), *frozen("b"), *gateway(switched(6, 3), same(6), wobble(10))]
    assert found(fleet(*series)) == {Mechanism.ENGINE_HUNG: Confidence.LIKELY}


def test_a_page_that_stands_still_while_its_answers_are_counted_is_stale() -> None:
    series = [*working("a"), *frozen("b"), *gateway(same(6), same(6), wobble(10))]
    assert found(fleet(*series)) == {Mechanism.TELEMETRY_STALE: Confidence.LIKELY}


def test_a_replica_that_has_nothing_to_do_stands_still_and_is_well() -> None:
    idle = [
        gauge(Signal.RUNNING, switched(2, 0), "b"),
        counter(Signal.GENERATION_TOKENS, switched(100, 0), "b"),
    ]
    series = [*working("a"), *idle]
    assert found(fleet(*series)) == {}
    unseen_third = [*series, *gateway(same(9), same(9), wobble(10))]
    assert found(fleet(*unseen_third)) == {}


def test_a_page_that_stands_still_where_nobody_counts_answers_needs_a_probe() -> None:
    series = [*working("a"), *frozen("b")]
    verdict = next(
        verdict
        for rule in RULES
        if rule.mechanism is Mechanism.TELEMETRY_STALE
        and (verdict := rule.judge(fleet(*series))) is not None
    )
    assert verdict.confidence is Confidence.POSSIBLE
    assert "a one-token probe of each replica" in verdict.needs


@pytest.mark.parametrize(
    ("in_flight", "mechanism"),
    [(wobble(10), Mechanism.TELEMETRY_STALE), (switched(10, 90), Mechanism.ENGINE_HUNG)],
)
def test_where_all_stand_still_it_counts_whether_requests_pile_up(
    in_flight: Course, mechanism: Mechanism
) -> None:
    series = [*frozen("a"), *frozen("b"), *gateway(same(6), same(6), in_flight)]
    assert found(fleet(*series)) == {mechanism: Confidence.LIKELY}


def test_a_share_that_stays_to_the_digit_while_tokens_come_is_stale() -> None:
    usage = gauge(Signal.KV_USAGE, lambda at: 0.3 if at >= ONSET else at / 100, "a")
    series = [usage, counter(Signal.GENERATION_TOKENS, same(100), "a")]
    assert found(fleet(*series)) == {Mechanism.TELEMETRY_STALE: Confidence.LIKELY}
    full = gauge(Signal.KV_USAGE, same(1), "a")
    assert found(fleet(full, series[1])) == {}


def test_batches_that_stay_while_what_is_in_flight_changes_are_stale() -> None:
    sent = gauge(Signal.GATEWAY_IN_FLIGHT, lambda at: 4 + (at / EVERY) % 7)
    tokens = counter(Signal.GENERATION_TOKENS, same(100), "a")
    stuck = gauge(Signal.RUNNING, lambda at: 5.0 if at >= ONSET else 8 - at / 10, "a")
    assert found(fleet(stuck, tokens, sent)) == {Mechanism.TELEMETRY_STALE: Confidence.LIKELY}
    full = gauge(Signal.RUNNING, same(8), "a")
    assert found(fleet(full, tokens, sent)) == {}


def test_a_replica_that_takes_connections_and_says_nothing_is_hung() -> None:
    silent = [
        gauge(Signal.RUNNING, same(4), "b", until=40),
        Series(
            signal=Signal.GENERATION_TOKENS,
            origin=Origin(kind=SourceKind.METRICS, name="tokens", place="b"),
            readings=tuple(Reading(at, at * 100, f"{at * 100:g}") for at in MOMENTS if at <= 40),
            labels={"replica": "b"},
        ),
    ]

    def reason(text: str) -> Fact:
        words = frozenset({"scrape", "failure"})
        return Fact(key="scrape_failure.b", raw=text, words=words, at=END, part="b")

    hung = fleet(*working("a"), *silent, facts=[reason("no answer within 10 s")])
    assert found(hung) == {Mechanism.ENGINE_HUNG: Confidence.LIKELY}
    died = fleet(*working("a"), *silent, facts=[reason("connection refused")])
    assert Mechanism.ENGINE_HUNG not in found(died)


def test_a_series_that_ends_while_its_page_goes_on_is_missing() -> None:
    series = [
        gauge(Signal.RUNNING, wobble(5), "a", until=ONSET),
        counter(Signal.GENERATION_TOKENS, same(100), "a"),
    ]
    assert found(fleet(*series)) == {Mechanism.TELEMETRY_MISSING: Confidence.LIKELY}


def test_series_that_go_with_a_restart_are_not_missing() -> None:
    tokens = counter(Signal.GENERATION_TOKENS, same(100), "a")
    fallen = tuple(
        Reading(each.at, each.value if each.at < ONSET else each.at, each.raw)
        for each in tokens.readings
    )
    restarted = Series(
        signal=tokens.signal, origin=tokens.origin, readings=fallen, labels=tokens.labels
    )
    series = [gauge(Signal.RUNNING, wobble(5), "a", until=ONSET), restarted]
    assert Mechanism.TELEMETRY_MISSING not in found(fleet(*series))


@pytest.mark.parametrize(("left", "is_misread"), [(2000.0, True), (150.0, False)])
def test_a_counter_that_fell_to_more_than_a_new_process_could_count_is_misread(
    left: float, is_misread: bool
) -> None:
    def total(at: float) -> float:
        return 10_000 + 100 * at if at < ONSET else left + 100 * (at - ONSET)

    series = [gauge(Signal.GENERATION_TOKENS, total, "a")]
    assert (Mechanism.TELEMETRY_MISREAD in found(fleet(*series))) is is_misread


def test_gauges_that_become_several_times_what_was_sent_are_misread() -> None:
    running = gauge(Signal.RUNNING, lambda at: wobble(6)(at) * (1 if at < ONSET else 3), "a")
    series = [running, gauge(Signal.GATEWAY_IN_FLIGHT, wobble(6))]
    assert found(fleet(*series)) == {Mechanism.TELEMETRY_MISREAD: Confidence.LIKELY}
    leaking = gauge(Signal.RUNNING, lambda at: wobble(6)(at) + max(0.0, at - ONSET), "a")
    assert Mechanism.TELEMETRY_MISREAD not in found(fleet(leaking, series[1]))


@pytest.mark.parametrize(("at", "confidence"), [(40, Confidence.LIKELY), (0, Confidence.POSSIBLE)])
def test_percent_under_the_name_of_a_ratio_is_misread_where_it_was_a_ratio_before(
    at: float, confidence: Confidence
) -> None:
    doubt = Doubt(kind=DoubtKind.UNIT_GUESSED, name="usage", what="usage is 41.2", at=at)
    window = fleet(gauge(Signal.KV_USAGE, lambda at: at / 200, "a"), doubts=[doubt])
    assert found(window) == {Mechanism.TELEMETRY_MISREAD: confidence}


def test_answers_that_are_done_and_not_read_are_slow_clients() -> None:
    series = [
        gauge(Signal.GATEWAY_UNDELIVERED, lambda at: 10 + max(0.0, at - ONSET)),
        gauge(Signal.GATEWAY_IN_FLIGHT, wobble(10)),
    ]
    assert found(fleet(*series)) == {Mechanism.DELIVERY_SLOW_CLIENT: Confidence.LIKELY}
    few = [gauge(Signal.GATEWAY_UNDELIVERED, wobble(14)), series[1]]
    assert found(fleet(*few)) == {}


def test_arrivals_that_multiply_while_less_is_done_are_retries() -> None:
    tokens = counter(Signal.GENERATION_TOKENS, switched(300, 60), "a")
    storm = [tokens, *gateway(switched(6, 50), switched(6, 50), wobble(20))]
    assert found(fleet(*storm)) == {Mechanism.QUEUE_RETRY_STORM: Confidence.LIKELY}
    busy = counter(Signal.GENERATION_TOKENS, switched(300, 900), "a")
    more_callers = [busy, *gateway(switched(6, 50), switched(6, 50), wobble(20))]
    assert found(fleet(*more_callers)) == {}


def _halves(decoding: Course, between: Course) -> list[Series]:
    return [
        gauge(Signal.RUNNING, wobble(1), "prefill"),
        counter(Signal.COMPUTED_PROMPT_TOKENS, same(500), "prefill"),
        counter(Signal.GENERATION_TOKENS, same(4), "prefill"),
        gauge(Signal.RUNNING, decoding, "decode"),
        gauge(Signal.WAITING, lambda at: 2.0 if decoding(END) >= 8 else 0.0, "decode"),
        counter(Signal.COMPUTED_PROMPT_TOKENS, same(0), "decode"),
        counter(Signal.GENERATION_TOKENS, same(150), "decode"),
        gauge(Signal.DECODE_QUEUE, between),
    ]


def test_decoders_that_idle_while_prompts_are_between_wait_for_the_link() -> None:
    window = fleet(*_halves(switched(8, 1), switched(0, 40)))
    assert found(window) == {Mechanism.TRANSFER_BOUND: Confidence.LIKELY}


def test_decoders_that_are_full_while_prompts_are_between_are_too_few() -> None:
    window = fleet(*_halves(switched(4, 8), switched(0, 40)))
    assert found(window) == {Mechanism.PHASE_MISMATCH: Confidence.LIKELY}


def test_halves_with_nothing_between_them_are_well() -> None:
    assert found(fleet(*_halves(same(6), same(0)))) == {}


def test_a_replica_that_has_and_does_most_is_skewed_and_one_that_is_slow_is_not() -> None:
    def load(running: float, tokens: float, replica: str) -> list[Series]:
        return [
            gauge(Signal.RUNNING, wobble(running), replica),
            counter(Signal.GENERATION_TOKENS, same(tokens), replica),
        ]

    skewed = fleet(*load(9, 300, "a"), *load(2, 60, "b"), *load(1, 40, "c"))
    assert found(skewed) == {Mechanism.ROUTING_SKEW: Confidence.LIKELY}
    slow = fleet(*load(9, 60, "a"), *load(2, 80, "b"), *load(1, 60, "c"))
    assert found(slow) == {}
