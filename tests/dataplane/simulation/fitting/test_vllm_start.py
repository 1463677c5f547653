from dataplane.simulation.fitting.vllm_requests import EngineSpan
from dataplane.simulation.fitting.vllm_start import read_vllm_starts


def _span(name: str, start: float, end: float, service: str = "vllm") -> EngineSpan:
    return EngineSpan(
        name=name,
        service=service,
        start_unix_ns=round(start * 1e9),
        end_unix_ns=round(end * 1e9),
        attributes={},
    )


def test_each_start_has_the_loading_that_lies_in_it() -> None:
    spans = [
        _span("Load model", 30, 34),
        _span("Overall Loading", 10, 50),
        _span("Load model", 112, 113),
        _span("Overall Loading", 100, 120),
    ]
    assert read_vllm_starts(spans) == [
        {"acquire": 20, "load": 4, "warm_up": 16},
        {"acquire": 12, "load": 1, "warm_up": 7},
    ]


def test_workers_that_load_beside_each_other_load_once() -> None:
    spans = [
        _span("Overall Loading", 0, 40),
        _span("Load model", 10, 18),
        _span("Load model", 12, 25),
    ]
    assert read_vllm_starts(spans) == [{"acquire": 10, "load": 15, "warm_up": 15}]


def test_a_start_without_its_loading_and_of_another_server_is_none() -> None:
    assert read_vllm_starts([_span("Overall Loading", 0, 40)]) == []
    another = _span("Load model", 10, 18, service="another")
    assert read_vllm_starts([_span("Overall Loading", 0, 40), another]) == []
