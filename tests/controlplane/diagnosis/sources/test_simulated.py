"""What a simulated fleet exports is read like what a real one does."""

from pathlib import Path

import pytest

from controlplane.diagnosis.sources.simulated import read_simulated, window_of
from controlplane.diagnosis.window import DoubtKind
from dataplane.engine_metrics.signal import Signal
from dataplane.simulation.observer.lines import Counted, LineFile, Logged, Scraped, Seen

PAGE = 'vllm:num_requests_running{{engine="0"}} {}\nvllm:generation_tokens_total {}\n'
LINE = (
    "INFO 01-01 00:00:{:02d} [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: {}.0 tokens/s, Running: 3 reqs, Waiting: 1 reqs, "
    "GPU KV cache usage: 7.4%, Prefix cache hit rate: 30.2%"
)


def _seen() -> list[Seen]:
    return [
        Scraped(at=0, target="replica-0", text=PAGE.format(1, 10)),
        Scraped(at=0, target="replica-1", text=PAGE.format(2, 20)),
        Scraped(at=5, target="replica-0", text=PAGE.format(3, 60)),
        Scraped(at=5, target="replica-1", text="", error="connection refused"),
        Logged(at=3, target="replica-0", text=LINE.format(3, 8)),
        Logged(at=13, target="replica-0", text=LINE.format(13, 9)),
        Counted(at=0, target="g", values={"in_flight": 3, "arrived": 4, "invalid": 0}),
        Counted(at=5, target="g", values={"in_flight": 6, "arrived": 9, "invalid": 0}),
    ]


def test_replicas_gateways_and_logs_are_one_window_on_the_fleets_clock() -> None:
    window = window_of(_seen())
    running = window.find(Signal.RUNNING, replica="replica-0")
    assert running is not None
    assert list(running.values) == [1, 3]
    arrived = window.find(Signal.GATEWAY_ARRIVED)
    assert arrived is not None
    assert arrived.increase == 5
    rate = window.find(Signal.GENERATION_RATE)
    assert rate is not None
    assert [reading.at for reading in rate.readings] == [3, 13]
    assert window.end == 13


def test_scrapes_without_an_answer_are_counted_and_told() -> None:
    window = window_of(_seen())
    assert window.number("scrapes unanswered") == 1
    assert [doubt.name for doubt in window.doubts_of(DoubtKind.MISSING)] == ["replica-1"]


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    kinds = {"metrics.jsonl": Scraped, "events.jsonl": Logged, "gateways.jsonl": Counted}
    for name, kind in kinds.items():
        with (tmp_path / name).open("w") as file:
            write = LineFile(file)
            for each in _seen():
                if isinstance(each, kind):
                    write(each)
    read, direct = read_simulated(tmp_path), window_of(_seen())
    assert read.series == direct.series
    assert read.facts == direct.facts


def test_a_line_that_is_none_of_the_simulators_is_named(tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "events.jsonl", "gateways.jsonl"):
        (tmp_path / name).write_text('{"kind": "weather", "at_s": 0, "target": "x"}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 1: .*weather"):
        read_simulated(tmp_path)
