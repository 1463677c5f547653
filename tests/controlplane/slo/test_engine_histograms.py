"""What an engine's own histogram can judge of a contract, and what is said of the rest."""

from collections.abc import Mapping, Sequence

import pytest

from controlplane.slo.engine_histograms import EngineView, shared_edges, view_by_engine
from controlplane.slo.promised import promises_of
from dataplane.engine_metrics.bucket_edges import EdgesByName
from dataplane.latency import Boundary
from tests.controlplane.slo.prometheus.promtool import contract

TTFT = "vllm:time_to_first_token_seconds"


def _view(
    *objectives: Mapping[str, str],
    engine: str = "vllm",
    boundary: Boundary = Boundary.ENGINE,
    page: EdgesByName | None = None,
) -> EngineView:
    promises = list(promises_of("chat", "chat@7", contract(list(objectives))))
    return view_by_engine(promises, boundary, engine, page)


def _ttft(at_most: str) -> dict[str, str]:
    return {"signal": "ttft", "at_most": at_most, "for": "99%"}


def _judged(view: EngineView) -> list[tuple[str, str, float]]:
    return [(each.promise.objective, each.histogram, each.edge) for each in view.objectives]


def test_a_threshold_that_is_an_edge_is_judged_as_it_is() -> None:
    view = _view(_ttft("250ms"))
    assert _judged(view) == [("ttft", TTFT, 0.25)]
    assert view.notes == ()


def test_one_that_is_none_is_judged_at_the_nearest_smaller_edge_and_said() -> None:
    view = _view(_ttft("300ms"))
    assert _judged(view) == [("ttft", TTFT, 0.25)]
    assert view.objectives[0].promise.at_most_seconds == 0.25
    [(promise, sentence)] = view.rescaled
    assert promise.at_most_seconds == 0.3
    assert "250ms" in sentence
    assert "300ms" in sentence


def test_one_without_an_edge_above_its_half_is_refused_with_those_that_would_do() -> None:
    view = _view({"signal": "e2e", "at_most": "250ms", "for": "99%"})  # they begin at 0.3 s
    assert view.objectives == ()
    [refused] = view.unjudged
    assert refused.is_refused
    assert "300ms or 500ms" in refused.why


@pytest.mark.parametrize(
    ("objective", "engine"),
    [
        ({"signal": "availability", "for": "99.9%"}, "vllm"),
        ({"signal": "max_itl", "at_most": "100ms", "for": "99%"}, "vllm"),
        ({"signal": "tpot", "at_most": "40ms", "for": "99%"}, "sglang"),  # of tokens, not requests
        ({"signal": "ttft", "at_most": "100ms", "for": "99%"}, "llamacpp"),
        ({"signal": "ttft", "at_most": "100ms", "for": "99%"}, "openai"),
    ],
)
def test_what_no_histogram_tells_is_not_judged_and_said(
    objective: dict[str, str], engine: str
) -> None:
    view = _view(objective, engine=engine)
    assert view.objectives == ()
    [unjudged] = view.unjudged
    assert not unjudged.is_refused
    assert view.notes == (f"chat {unjudged.promise.name}: {unjudged.why}",)


def test_boundaries_are_kept_apart() -> None:
    view = _view(_ttft("250ms"), boundary=Boundary.SERVER)
    assert view.objectives == ()
    assert "boundary: engine" in view.unjudged[0].why


def test_classes_that_no_histogram_tells_apart_are_not_judged_by_one_another() -> None:
    one = list(promises_of("chat", "chat@7", contract([_ttft("250ms")])))
    spec = contract([_ttft("500ms")])
    both = spec.model_copy(update={"classes": {"batch": spec.classes["interactive"]}})
    view = view_by_engine([*one, *promises_of("chat", "chat@7", both)], Boundary.ENGINE, "vllm")
    assert view.objectives == ()
    assert len(view.unjudged) == 2


def test_edges_of_a_page_that_was_seen_go_before_those_that_are_known() -> None:
    view = _view(_ttft("300ms"), page={TTFT: (0.1, 0.3, 1.0)})
    assert _judged(view) == [("ttft", TTFT, 0.3)]
    assert view.rescaled == ()


def test_whoever_speaks_openai_s_api_is_known_by_its_page() -> None:
    assert _view(_ttft("300ms"), engine="openai").objectives == ()
    view = _view(_ttft("300ms"), engine="openai", page={TTFT: (0.1, 0.3)})
    assert _judged(view) == [("ttft", TTFT, 0.3)]


def test_an_engine_whose_buckets_are_anybody_s_is_judged_once_its_page_was_seen() -> None:
    histogram = "trtllm_time_to_first_token_seconds"
    [unjudged] = _view(_ttft("300ms"), engine="trtllm").unjudged
    assert not unjudged.is_refused
    assert "until its page was seen" in unjudged.why
    view = _view(_ttft("300ms"), engine="trtllm", page={histogram: (0.3,)})
    assert _judged(view) == [("ttft", histogram, 0.3)]


def test_t10_a_histogram_that_the_page_lacks_is_an_error_and_no_zero() -> None:
    view = _view({"signal": "tpot", "at_most": "50ms", "for": "99%"}, page={TTFT: (0.1, 0.3, 1.0)})
    assert view.objectives == ()
    assert "does not export vllm:request_time_per_output_token_seconds" in view.unjudged[0].why


@pytest.mark.parametrize(
    ("pages", "shared"),
    [
        ([{TTFT: (0.1, 0.2)}], {TTFT: (0.1, 0.2)}),
        ([{TTFT: (0.1, 0.2), "other": (1.0,)}, {TTFT: (0.2, 0.4)}], {TTFT: (0.2,)}),
    ],
)
def test_replicas_share_the_edges_that_all_of_them_have(
    pages: Sequence[EdgesByName], shared: EdgesByName
) -> None:
    assert shared_edges(pages) == shared
