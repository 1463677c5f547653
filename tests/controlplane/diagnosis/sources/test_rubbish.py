"""Nothing that people save makes reading fail, and nothing of it is lost in silence."""

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.diagnosis.sources.case import CaseError, read_case
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.files import InputError, read_inputs
from controlplane.diagnosis.sources.log import LogReader, read_log
from controlplane.diagnosis.window import DoubtKind
from dataplane.engine_metrics.signal import Signal

FEW = settings(max_examples=40)
"""They run at each commit; more were run by hand."""

LINES = (
    "(APIServer pid=7) INFO 11-30 08:00:00 [loggers.py:271] Engine 000: Avg prompt throughput: 12.5"
    " tokens/s, Avg generation throughput: 88.1 tokens/s, Running: 3 reqs, Waiting: 1 reqs, GPU KV"
    " cache usage: 42.5%, Prefix cache hit rate: 7.0%",
    "[2026-11-30 08:00:07 TP0] Decode batch, #running-req: 4, #token: 9, token usage: 0.10,"
    " cuda graph: True, gen throughput (token/s): 9.1, #queue-req: 0",
    "0.12.345.678 I slot update_slots: id  0 | task 7 | new prompt, n_ctx_slot = 16384, n_keep = 0,"
    " task.n_tokens = 2507",
    "prompt eval time =    3011.20 ms /  2502 tokens (    1.20 ms per token,   830.90 tokens per"
    " second)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"
    " capacity of 23.65 GiB of which 1.50 GiB is free.",
    "[ 518.050606] Out of memory: Killed process 157 (python3) total-vm:2097152kB, anon-rss:1kB",
    '{"log":"INFO: done\\n","stream":"stderr","time":"2026-11-30T08:00:00Z"}',
    "(EngineCore pid=8) INFO 11-30 08:00:02 [core.py:1] Initializing a V1 LLM engine (v0.20.1) with"
    " config: model='m', max_seq_len=32768",
)


@FEW
@given(st.lists(st.text(max_size=200), max_size=20))
def test_any_text_can_be_read_as_a_log(lines: list[str]) -> None:
    reader = LogReader()
    reader.read(lines)
    assert reader.finish().num_lines <= sum(line.count("\r") + 1 for line in lines)


@FEW
@given(st.sampled_from(LINES), st.data())
def test_a_known_line_with_any_change_can_be_read(line: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(place, min(len(line), place + 30)))
    new = data.draw(st.text(st.sampled_from("0123456789.,:-{}[]()=%'\"| \tGiBsxEN"), max_size=12))
    read_log(line[:place] + new + line[end:])


@pytest.mark.parametrize("line", LINES)
def test_a_line_may_be_cut_anywhere(line: str) -> None:
    for place in range(len(line)):
        read_log(line[:place])
        read_log(line[place:])


@pytest.mark.parametrize("line", LINES)
def test_numbers_of_any_size_are_no_trouble(line: str) -> None:
    for digits in ("9" * 400, "0" * 2000, "1e999", "-1", "nan", "1,2,3", "..."):
        part = read_log(line.replace("7", digits).replace("3", digits).replace("0", digits))
        values = [value for series in part.series for value in series.values]
        values += [value for event in part.events for value in event.fields.values()]
        assert all(abs(value) < float("inf") for value in values)


@FEW
@given(st.permutations(LINES * 2))
def test_engines_and_clocks_may_be_mixed_in_any_order(lines: list[str]) -> None:
    part = read_log("\n".join(lines))
    assert part.num_lines == len(lines)
    for series in part.series:
        times = [reading.at for reading in series.readings]
        assert times == sorted(times)


def test_a_clock_that_goes_back_keeps_the_order_of_lines() -> None:
    line = "[2026-11-30 08:{:02d}:00] Cache flushed successfully!"
    events = read_log("\n".join(line.format(minute) for minute in (5, 3, 7))).events
    assert [event.at for event in events] == [0, -120, 120]
    assert [event.index for event in events] == [0, 1, 2]


def test_a_long_line_of_what_shapes_look_for_is_read_in_time() -> None:
    for piece in (
        "NCCL ",
        "1.",
        "out of memory. Tried to allocate 1 GiB. ",
        "request aborted ",
        "{" * 9,
    ):
        read_log(piece * 2000)


def test_bytes_of_another_encoding_are_told() -> None:
    saved = "[2026-11-30 08:00:00] Decode batch, #running-req: 4, Größe\n".encode("latin-1")
    window = read_inputs(["-"], io.BytesIO(saved))
    assert window.find(Signal.RUNNING) is not None
    [doubt] = window.doubts_of(DoubtKind.UNREADABLE)
    assert "not UTF-8: 1 lines" in doubt.what


@FEW
@given(st.binary(max_size=400))
def test_any_bytes_are_a_window_or_an_error_that_helps(data: bytes) -> None:
    with contextlib.suppress(InputError):
        read_inputs(["-"], io.BytesIO(data))


@FEW
@given(st.text(max_size=300))
def test_any_text_is_a_case_or_an_error_that_helps(text: str) -> None:
    with contextlib.suppress(CaseError):
        read_case(text, "mine.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 600,
        "input:\n- {kind: metrics, text: '{'}\n",
        "input:\n- 7\n",
        "input: {a: b}\n",
        "engine: [x]\ninput:\n- {kind: gateway, values: {a: 1}}\n",
        "input:\n- {kind: gateway, values: {a: 1}}\nexpect: queue.blocked\n",
    ],
)
def test_a_strange_case_is_refused(text: str) -> None:
    with pytest.raises(CaseError, match=r"^mine\.yaml"):
        read_case(text, "mine.yaml")


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_TOLD = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)


@FEW
@given(st.dictionaries(st.text(max_size=30), _TOLD, max_size=4))
def test_any_values_are_facts(values: dict[str, object]) -> None:
    facts = facts_of(values, 0.0)
    assert {fact.key for fact in facts} >= set(values)
    assert all(fact.value is None or abs(fact.value) < float("inf") for fact in facts)
