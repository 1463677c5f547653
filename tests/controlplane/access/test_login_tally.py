"""However many logins fail, they leave few lines, and the numbers in them add up."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.access.login_tally import Failure, Failures, LoginTally

WRONG = Failure.WRONG_PASSWORD
WINDOW = 300


def tally(max_kinds: int = 3) -> LoginTally:
    return LoginTally(window_ns=WINDOW, max_kinds=max_kinds)


def said(told: list[Failures]) -> list[tuple[str | None, str | None, int]]:
    return [(each.user, each.address, each.number) for each in told]


def test_the_first_is_told_at_once_and_the_rest_as_a_number_when_the_window_ends() -> None:
    counted = tally()

    assert said(counted.add(WRONG, "ana", "10.0.0.1", 0)) == [("ana", "10.0.0.1", 1)]
    for now in (1, 2, WINDOW - 1):
        assert counted.add(WRONG, "ana", "10.0.0.1", now) == []
    assert counted.take_ended(WINDOW - 1) == []
    [ended] = counted.take_ended(WINDOW)

    assert said([ended]) == [("ana", "10.0.0.1", 4)]
    assert (ended.first_at_unix_ns, ended.last_at_unix_ns) == (0, WINDOW - 1)
    assert counted.is_empty


def test_one_that_stayed_alone_is_told_once() -> None:
    counted = tally()
    counted.add(WRONG, "ana", "10.0.0.1", 0)

    assert counted.take_ended(WINDOW) == []
    assert said(counted.add(WRONG, "ana", "10.0.0.1", WINDOW)) == [("ana", "10.0.0.1", 1)]


def test_an_attempt_after_the_window_tells_both_windows() -> None:
    counted = tally()
    counted.add(WRONG, "ana", "10.0.0.1", 0)
    counted.add(WRONG, "ana", "10.0.0.1", 5)

    told = counted.add(WRONG, "ana", "10.0.0.1", WINDOW)

    assert said(told) == [("ana", "10.0.0.1", 2), ("ana", "10.0.0.1", 1)]


def test_users_addresses_and_causes_are_told_apart() -> None:
    counted = tally(max_kinds=9)
    for why, user, address in (
        (WRONG, "ana", "10.0.0.1"),
        (WRONG, "ana", "10.0.0.2"),
        (WRONG, "bo", "10.0.0.1"),
        (Failure.THROTTLED, "ana", "10.0.0.1"),
        (Failure.UNKNOWN, None, "10.0.0.1"),
    ):
        assert len(counted.add(why, user, address, 0)) == 1


def test_beyond_so_many_kinds_addresses_are_one_and_users_are_still_told_apart() -> None:
    counted = tally(max_kinds=2)
    told = [
        said(counted.add(WRONG, user, f"10.0.0.{number}", number))
        for number, user in enumerate(["ana", "ana", "ana", "bo", "ana", None, None])
    ]

    assert told == [
        [("ana", "10.0.0.0", 1)],
        [("ana", "10.0.0.1", 1)],
        [("ana", None, 1)],
        [("bo", None, 1)],
        [],
        [(None, None, 1)],
        [],
    ]
    assert said(counted.take_all()) == [("ana", None, 2), (None, None, 2)]


ATTEMPTS = st.lists(
    st.tuples(
        st.sampled_from(Failure),
        st.sampled_from(["ana", "bo", None]),
        st.integers(0, 50).map(str),
        st.integers(0, WINDOW // 4),
    ),
    max_size=200,
)


@given(ATTEMPTS)
def test_no_attempt_goes_uncounted_and_no_window_leaves_more_than_its_bound(
    attempts: list[tuple[Failure, str | None, str, int]],
) -> None:
    counted, now = tally(), 0
    lines: list[tuple[int, Failures]] = []
    for why, user, address, pause in attempts:
        now += pause
        lines += [(now, each) for each in counted.add(why, user, address, now)]
    lines += [(now, each) for each in counted.take_all()]

    first = [each for _, each in lines if each.number == 1]
    more = [each for _, each in lines if each.number > 1]
    # The line that ends a window counts its first attempt again.
    assert len(first) + sum(each.number - 1 for each in more) == len(attempts)
    most = 2 * 2 * (3 + len(Failure) * 3)  # the two ends of two windows that touch
    for at, _ in lines:
        assert sum(at <= other < at + WINDOW for other, _ in lines) <= most
