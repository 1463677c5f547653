import pytest

from dataplane.routing.reported_load import (
    DISTRUST_SECONDS,
    MAX_AGE_SECONDS,
    ReportedLoad,
    judge_report,
)


def judge(
    num_running: int | None,
    fewest_held: int,
    told_at: float = 0.0,
    num_waiting: int | None = 0,
    before: ReportedLoad | None = None,
    most_held: int | None = None,
) -> ReportedLoad:
    return judge_report(
        num_running,
        num_waiting,
        told_at,
        fewest_held=fewest_held,
        most_held=fewest_held if most_held is None else most_held,
        max_num_seqs=8,
        before=before,
    )


@pytest.mark.parametrize(
    ("num_running", "num_waiting", "fewest_held", "num_foreign"),
    [(5, 2, 4, 3), (5, None, 5, 0), (3, 0, 4, 0), (0, 0, 0, 0)],
)
def test_a_report_adds_what_others_sent_and_takes_nothing_away(
    num_running: int, num_waiting: int | None, fewest_held: int, num_foreign: int
) -> None:
    report = judge(num_running, fewest_held, num_waiting=num_waiting)
    assert (report.num_foreign, report.why_not) == (num_foreign, None)


def test_what_came_and_went_since_the_last_report_is_not_taken_for_the_work_of_others() -> None:
    assert judge(5, 2, most_held=6).num_foreign == 0
    assert judge(7, 2, most_held=6).num_foreign == 1


def test_one_low_report_may_have_missed_what_came_and_went_but_two_cannot() -> None:
    first = judge(1, 6)
    assert first.why_not is None
    second = judge(1, 6, 1.0, before=first)
    assert second.why_not == "it reports 1 sequences where 6 were sent to it"
    honest = judge(6, 6, 1.0, before=first)
    assert judge(1, 6, 2.0, before=honest).why_not is None


def test_more_than_it_can_run_is_not_believed() -> None:
    report = judge(500, 2)
    assert report.num_foreign == 0
    assert report.why_not == "it reports 500 running sequences and runs at most 8"


def test_trust_comes_back_after_a_while_of_truth() -> None:
    lie = judge(500, 2)
    soon = judge(5, 2, DISTRUST_SECONDS - 1, before=lie)
    assert soon.num_foreign == 0
    assert soon.why_not == "it reported what cannot be true a short while ago"
    later = judge(5, 2, DISTRUST_SECONDS, before=soon)
    assert (later.num_foreign, later.why_not) == (3, None)


def test_a_report_is_new_for_a_while_and_one_that_says_nothing_never() -> None:
    report = judge(2, 2, 10.0)
    assert report.is_new(10.0 + MAX_AGE_SECONDS)
    assert not report.is_new(10.1 + MAX_AGE_SECONDS)
    assert report.age(9.0) == 0.0
    assert not judge(None, 2).is_new(0.0)
