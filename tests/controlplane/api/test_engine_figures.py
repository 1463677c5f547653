"""What stands beside a replica of its engine's figures, and for how long."""

import pytest

from controlplane.api.engine_figures import with_pages
from controlplane.operator.observed import ObservedReplica
from controlplane.operator.page_look import PageLook

NOW_NS = 1_790_000_000 * 10**9


def observed(page_age_seconds: float | None) -> ObservedReplica:
    at = None if page_age_seconds is None else NOW_NS - round(page_age_seconds * 1e9)
    look = PageLook(
        at_unix_ns=NOW_NS,
        page="http://127.0.0.1:8000/metrics",
        page_at_unix_ns=at,
        num_running=3,
        num_waiting=1,
        max_num_seqs=8,
        silence=None,
        silent_since_unix_ns=None,
        num_silent=0,
        why="",
    )
    return ObservedReplica(
        replica_id="chat-1",
        deployment="chat",
        engine="vllm",
        model_revision="m@1",
        state="ready",
        reason="observed only",
        stage=None,
        pid=None,
        address="http://127.0.0.1:8000",
        metrics_address=None,
        start_stages={},
        probed_at_unix_ns=None,
        observed_at_unix_ns=NOW_NS,
        is_observed_only=True,
        look=look,
    )


def test_an_engine_that_is_only_observed_is_shown_by_its_page_with_its_age() -> None:
    stats, age = with_pages({}, [observed(4.0)], NOW_NS)["chat-1"]
    assert (stats.num_running, stats.num_waiting, stats.max_num_seqs) == (3, 1, 8)
    assert age == pytest.approx(4.0)


@pytest.mark.parametrize("page_age_seconds", [None, 31.0])
def test_a_page_that_is_old_or_never_came_is_no_figure_of_now(
    page_age_seconds: float | None,
) -> None:
    assert with_pages({}, [observed(page_age_seconds)], NOW_NS) == {}
