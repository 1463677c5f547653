"""Log lines become signals and events on one clock."""

import pytest

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.sources.log import LogReader, read_log
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.window import DoubtKind
from dataplane.engine_metrics.signal import Signal

V1 = (
    "(APIServer pid=7) INFO 11-30 08:00:{second:02d} [loggers.py:271] Engine 00{engine}: Avg prompt"
    " throughput: 120.5 tokens/s, Avg generation throughput: 88.1 tokens/s, Running: {running}"
    " reqs, Waiting: {waiting} reqs, GPU KV cache usage: 42.5%, Prefix cache hit rate: 7.0%"
)


def v1(second: int, running: int = 3, waiting: int = 1, engine: int = 0) -> str:
    return V1.format(second=second, running=running, waiting=waiting, engine=engine)


def the(part: Part, signal: Signal) -> Series:
    [series] = [each for each in part.series if each.signal is signal]
    return series


def kinds(part: Part) -> list[LogKind]:
    return [event.kind for event in part.events]


def test_a_statistics_line_becomes_one_series_for_each_signal_with_figures_as_they_stand() -> None:
    part = read_log("\n".join([v1(0, 3, 1), v1(10, 4, 0)]))
    running = the(part, Signal.RUNNING)
    assert [(reading.at, reading.value, reading.raw) for reading in running.readings] == [
        (0.0, 3.0, "3"),
        (10.0, 4.0, "4"),
    ]
    assert running.origin.name == "Running"
    usage = the(part, Signal.KV_USAGE)
    assert usage.last.value == pytest.approx(0.425)
    assert usage.last.raw == "42.5 %"
    assert the(part, Signal.PROMPT_RATE).last.raw == "120.5"
    assert part.engine is not None
    assert part.engine.name == "vllm"
    assert (part.start, part.end) == (0.0, 10.0)


def test_engines_side_by_side_keep_series_of_their_own() -> None:
    part = read_log("\n".join([v1(0, 3, engine=0), v1(0, 5, engine=1)]))
    by_engine = {
        series.labels["engine"]: series.last.value
        for series in part.series
        if series.signal is Signal.RUNNING
    }
    assert by_engine == {"0": 3.0, "1": 5.0}


def test_ranks_that_work_at_the_same_batch_are_counted_once() -> None:
    line = "[2026-11-30 08:00:00 TP{}] Decode batch, #running-req: 4, #token: 9, token usage: 0.10"
    part = read_log("\n".join([line.format(0), line.format(1)]))
    assert len(the(part, Signal.RUNNING).readings) == 1


def test_half_a_statistics_line_is_a_doubt_and_not_silence() -> None:
    part = read_log(v1(0).partition("0.5 tokens")[0])
    assert not part.series
    [doubt] = part.doubts
    assert doubt.kind is DoubtKind.UNREADABLE
    assert "1 lines" in doubt.what


def test_a_long_log_is_read_within_bounds_and_keeps_its_ends() -> None:
    reader = LogReader()
    reader.read(f"INFO nothing here {number}" for number in range(5_000))
    reader.read(
        "[2026-11-30 08:00:00] Received output for rid='a' but the state was deleted"
        for _ in range(3_000)
    )
    part = reader.finish()
    assert part.num_lines == 8_000
    assert part.lines[0].endswith(" 0")
    assert len(part.lines) < 7_000
    assert len(part.events) == 2_000
    assert any("3000 lines" in doubt.what for doubt in part.doubts)


def test_a_progress_bar_that_redraws_itself_is_read_step_by_step() -> None:
    bar = "\r".join(
        f"Capturing CUDA graphs (decode, FULL):  {done * 10}%|##  | {done}/10 [00:01<00:02]"
        for done in range(3)
    )
    part = read_log(bar)
    assert [event.fields["done"] for event in part.events] == [0.0, 1.0, 2.0]


def test_answers_to_callers_are_counted_by_status_and_those_to_probes_are_not() -> None:
    line = '[2026-11-30 08:00:{:02d}] INFO:     10.0.0.9:5 - "{} HTTP/1.1" {}'
    requests = [("POST /v1/chat/completions", "200 OK")] * 3
    requests += [("POST /v1/chat/completions", "503 Service Unavailable")] * 2
    requests += [("GET /health", "503 Service Unavailable"), ("GET /metrics", "200 OK")]
    part = read_log("\n".join(line.format(at, *told) for at, told in enumerate(requests)))
    answered = {series.labels["code"]: series.last.value for series in part.series}
    assert answered == {"200": 3, "503": 2}


def test_an_error_of_no_known_shape_is_kept_as_an_error() -> None:
    part = read_log(
        "ERROR 11-30 08:00:00 [core.py:1] Traceback (most recent call last):\n"
        'ERROR 11-30 08:00:00 [core.py:1]   File "/opt/x.py", line 3, in f\n'
        "ERROR 11-30 08:00:00 [core.py:1] KeyError: 'rope'\n"
        "WARNING 11-30 08:00:01 [x.py:9] the tokenizer is slow\n"
    )
    assert kinds(part) == [LogKind.ERROR, LogKind.WARNING]
    assert part.events[0].line.endswith("KeyError: 'rope'")


def test_colours_of_a_terminal_are_not_cited() -> None:
    part = read_log("\x1b[31mEngineCore failed to start.\x1b[0m")
    assert part.lines == ("EngineCore failed to start.",)
    assert part.events[0].line == "EngineCore failed to start."


def test_figures_before_the_first_time_are_as_old_as_that() -> None:
    lines = "prompt eval time = 100 ms / 10 tokens (1 ms per token, 100.00 tokens per second)\n"
    part = read_log(lines + "2026-11-30 08:00:00 INFO: main: server is listening on port 1")
    assert the(part, Signal.PROMPT_RATE).first.at == 0


def test_a_log_without_any_time_stands_at_one_moment() -> None:
    part = read_log("all slots are idle\nall slots are idle")
    assert (part.start, part.end) == (0, 0)


def test_of_a_line_without_end_the_beginning_and_the_end_are_kept() -> None:
    prompt = "prompt " * 2500
    reader = LogReader("engine.log")
    reader.read([f"INFO received {prompt} and torch.OutOfMemoryError: CUDA out of memory."])
    part = reader.finish(zero=0.0, first_at=0.0)
    (line,) = part.lines
    assert len(line) < 5000
    assert line.startswith("INFO received")
    assert line.endswith("CUDA out of memory.")
    assert {event.line for event in part.events} <= {line}


def test_a_clock_that_goes_back_is_told_of() -> None:
    hours = (*range(60), *range(20, 60))
    part = read_log(
        "\n".join(f"INFO 11-29 01:{minute:02}:00 [x.py:1] Starting to load" for minute in hours)
    )
    assert ["goes back 1 times, by up to 2340 s" in doubt.what for doubt in part.doubts] == [True]
