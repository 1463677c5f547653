from hypothesis import given
from hypothesis import strategies as st

from dataplane.routing.ejection import Ejections, EjectionTerms, Service

NAMES = ("a", "b", "c", "d")


class Fleet:
    """Ejections of four replicas, a second after another."""

    def __init__(self, names: tuple[str, ...] = NAMES, **terms: float) -> None:
        self.now = 0.0
        self.ejections = Ejections(EjectionTerms(**terms))  # type: ignore[arg-type]
        self.ejections.set_replicas(names, names, 0.0)
        self.number = 0

    def serve(self, name: str, seconds: float = 0.1, has_failed: bool = False) -> bool:
        self.number += 1
        self.ejections.note_sent(name, self.number, self.now)
        if not has_failed:
            self.ejections.note_first_token(name, self.number, self.now + seconds)
        return self.ejections.note_end(name, self.number, has_failed, self.now + seconds)

    def fail(self, name: str, times: int) -> bool:
        answers = [self.serve(name, 0.0, has_failed=True) for _ in range(times)]
        return any(answers)

    def out(self) -> set[str]:
        return set(NAMES) - self.ejections.usable()

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.ejections.check(self.now)


def test_failures_in_a_row_eject_and_one_success_between_them_does_not() -> None:
    fleet = Fleet()
    for _ in range(2):
        fleet.fail("a", 4)
        for _ in range(9):
            fleet.serve("a")
    assert not fleet.out()
    assert fleet.fail("a", 5)
    assert fleet.out() == {"a"}
    assert fleet.ejections.why_out("a") == "5 failures in a row"


def test_one_that_fails_much_more_often_than_the_others_is_ejected() -> None:
    fleet = Fleet()
    for _ in range(6):
        for name in "bcd":
            fleet.serve(name)
        fleet.serve("a")
        fleet.fail("a", 2)
    assert fleet.out() == {"a"}
    assert fleet.ejections.why_out("a") == "7 of 11 requests failed, 0% of others'"


def test_what_every_replica_suffers_from_ejects_nobody() -> None:
    fleet = Fleet(consecutive_failures=1000)
    for _ in range(20):
        for name in NAMES:
            fleet.serve(name)
            fleet.fail(name, 2)
    assert not fleet.out()
    slow = Fleet()
    for _ in range(20):
        for name in NAMES:
            slow.serve(name, 30.0)
    slow.wait(1.0)
    assert not slow.out()


def test_one_whose_first_tokens_take_much_longer_than_the_others_is_ejected() -> None:
    fleet = Fleet()
    for _ in range(10):
        for name in "bcd":
            fleet.serve(name, 0.3)
        fleet.serve("a", 2.0)
    assert fleet.wait(1.0)
    assert fleet.out() == {"a"}
    assert fleet.ejections.why_out("a") == "its first tokens take 2 s, others' take 0.3 s"


def test_a_slow_one_is_kept_while_nobody_would_notice() -> None:
    fleet = Fleet()
    for _ in range(20):
        for name in "bcd":
            fleet.serve(name, 0.01)
        fleet.serve("a", 0.9)
    assert not fleet.wait(1.0)


def test_one_that_stands_still_is_ejected_though_it_tells_nothing() -> None:
    fleet = Fleet()
    fleet.ejections.note_sent("a", "stuck", fleet.now)
    for _ in range(9):
        fleet.wait(1.0)
        for name in "bcd":
            fleet.serve(name)
    assert not fleet.out()
    assert fleet.wait(1.5)
    assert fleet.out() == {"a"}
    assert fleet.ejections.why_out("a") == "a request has waited for 10.5 s, others' take 0.1 s"


def test_one_that_stands_still_is_found_though_its_callers_give_up_before() -> None:
    fleet = Fleet()
    for number in range(10):
        fleet.ejections.note_sent("a", number, fleet.now)
        fleet.now += 2.0
        fleet.ejections.note_end("a", number, False, fleet.now)
        for name in "bcd":
            fleet.serve(name)
    assert fleet.wait(1.0)
    assert fleet.out() == {"a"}
    assert fleet.ejections.why_out("a") == "its first tokens take 2 s, others' take 0.1 s"


def test_the_way_back_is_slow_and_each_further_ejection_is_longer() -> None:
    fleet = Fleet()
    fleet.fail("a", 5)
    assert not fleet.wait(9.0)
    assert fleet.ejections.share("a", fleet.now) == 1.0, "of nothing: it is not asked"
    assert fleet.wait(1.0)
    assert not fleet.out()
    shares = []
    for _ in range(4):
        shares.append(round(fleet.ejections.share("a", fleet.now), 2))
        fleet.wait(10.0)
    assert shares == [0.1, 0.4, 0.7, 1.0]
    assert not fleet.ejections.is_anybody_returning

    fleet.fail("a", 5)
    fleet.wait(10.0)  # its past is forgiven
    assert fleet.fail("a", 1), "one failure on the way back is enough"
    assert not fleet.wait(19.0)
    assert fleet.wait(1.0)


def test_never_more_than_half_are_out_and_the_last_that_is_there_is_used() -> None:
    fleet = Fleet()
    for name in NAMES:
        fleet.fail(name, 20)
    assert fleet.out() == {"a", "b"}
    fleet.ejections.set_replicas(NAMES, ("a",), fleet.now)
    assert fleet.ejections.usable() == {"a"}, "one that is ejected is better than none"
    alone = Fleet(("a",))
    alone.fail("a", 100)
    assert alone.ejections.usable() == {"a"}


def test_what_is_known_outlasts_a_connection_and_ends_with_the_replica() -> None:
    fleet = Fleet()
    fleet.fail("a", 4)
    fleet.ejections.set_replicas(NAMES, ("b", "c", "d"), fleet.now)
    fleet.ejections.set_replicas(NAMES, NAMES, fleet.now)
    assert fleet.fail("a", 1)
    fleet.ejections.set_replicas(("b", "c", "d"), ("b", "c", "d"), fleet.now)
    fleet.ejections.set_replicas(NAMES, NAMES, fleet.now)
    assert not fleet.out()


def test_who_is_out_or_comes_back_is_told_with_the_reason_and_the_time() -> None:
    fleet = Fleet()
    fleet.fail("a", 5)
    (status,) = fleet.ejections.statuses(4.0)
    assert (status.service, status.share, round(status.seconds_left, 1)) == (
        Service.EJECTED,
        0.0,
        6.0,
    )
    fleet.wait(11.0)
    (status,) = fleet.ejections.statuses(fleet.now)
    assert (status.service, status.why) == (Service.RETURNING, "5 failures in a row")


STEP = st.tuples(st.sampled_from(("fail", "serve", "slow", "time")), st.sampled_from(NAMES))


@given(st.lists(STEP, max_size=120))
def test_somebody_is_always_left_and_shares_stay_within_bounds(
    steps: list[tuple[str, str]],
) -> None:
    fleet = Fleet()
    for action, name in steps:
        match action:
            case "fail":
                fleet.fail(name, 3)
            case "serve":
                fleet.serve(name)
            case "slow":
                for _ in range(5):
                    fleet.serve(name, 20.0)
            case _:
                fleet.wait(5.0)
        assert len(fleet.out()) <= 2
        for each in NAMES:
            assert 0.1 <= fleet.ejections.share(each, fleet.now) <= 1.0
        due = fleet.ejections.next_change_at
        assert (due is None) == (not fleet.out())


def test_one_that_joins_others_gets_its_share_slowly_and_is_not_held_to_what_warm_ones_do() -> None:
    fleet = Fleet(NAMES[:3], warm_seconds=20.0, first_share=0.1)
    assert not fleet.ejections.statuses(0.0), "the first ones are all new"
    fleet.now = 15.0
    fleet.ejections.set_replicas(NAMES, NAMES, fleet.now)
    assert fleet.ejections.shares(15.0) == {"d": 0.1}
    [status] = fleet.ejections.statuses(25.0)
    assert status.service is Service.WARMING
    assert status.describe() == "warming up, with 55% of a share: it is new"
    assert not fleet.serve("d", has_failed=True), "one failure is no relapse"
    fleet.wait(20.0)
    assert not fleet.ejections.statuses(fleet.now)
    fleet.ejections.set_replicas(NAMES, NAMES[:3], fleet.now)
    fleet.ejections.set_replicas(NAMES, NAMES, fleet.now)
    assert not fleet.ejections.statuses(fleet.now), "it was only away"


def test_whoever_a_gateway_finds_at_its_own_start_is_not_new() -> None:
    ejections = Ejections(EjectionTerms(warm_seconds=20.0))
    for at, connected in ((0.0, "a"), (0.3, "ab"), (2.0, "abc")):
        ejections.set_replicas(NAMES, connected, at)
    assert not ejections.statuses(2.0)


def test_without_a_time_to_warm_up_one_that_joins_has_its_share_at_once() -> None:
    fleet = Fleet(NAMES[:3])
    fleet.ejections.set_replicas(NAMES, NAMES, 60.0)
    assert not fleet.ejections.is_anybody_returning
