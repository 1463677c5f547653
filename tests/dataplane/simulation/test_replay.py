import json
from pathlib import Path
from typing import Any

import pytest

from dataplane.record import encode_record
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import AllRecords
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.replay import (
    ReplayedTraffic,
    ReplaySpec,
    TraceError,
    parse_trace,
    read_trace,
)
from dataplane.simulation.token_space import TokenSpace
from tests.dataplane.simulation.small_fleet import call, in_order, small_fleet


def trace(*entries: dict[str, Any]) -> list[bytes]:
    return [json.dumps(entry).encode() for entry in entries]


def entry(at: float, **fields: Any) -> dict[str, Any]:
    return {"at": at, "prompt_tokens": 10, "output_tokens": 3, **fields}


def replay(spec: ReplaySpec, is_prefix_caching: bool = False) -> tuple[Fleet, AllRecords]:
    model, _ = small_fleet(is_prefix_caching=is_prefix_caching)
    scenario = model.scenario
    records = AllRecords()
    played = FleetScenario(
        name="replay",
        seed=1,
        duration=1000,
        replicas=scenario.replicas,
        policy=scenario.policy,
        replays=(spec,),
    )
    fleet = Fleet(played, records)
    fleet.run()
    return fleet, records


def test_a_trace_is_played_in_order_and_as_fast_as_asked() -> None:
    entries = parse_trace(trace(entry(104.0, tenant="b"), entry(100.0, tenant="a")), "t.jsonl")
    _, records = replay(ReplaySpec(entries=tuple(entries), speed=2, starts_at=1))
    first, second = in_order(records)
    assert (first.tenant, second.tenant) == ("a", "b")
    assert second.arrived_at_unix_ns - first.arrived_at_unix_ns == 2 * 10**9
    assert first.num_prompt_tokens == 10
    assert first.num_output_tokens == 3


def test_a_turn_waits_for_the_answer_and_its_tool() -> None:
    entries = parse_trace(trace(entry(0, id="a"), entry(1, after="a", tool_wait=5.0)), "t.jsonl")
    _, records = replay(ReplaySpec(entries=tuple(entries)))
    first, second = in_order(records)
    # Three steps of a second each, then the tool.
    assert second.arrived_at_unix_ns - first.arrived_at_unix_ns == 8 * 10**9


def test_equal_hashes_are_found_again_in_the_prefix_cache() -> None:
    entries = parse_trace(
        trace(
            entry(0, prompt_tokens=20, prefix_hashes=["x", "y"]),
            entry(10, prompt_tokens=20, prefix_hashes=["x", "z"]),
        ),
        "t.jsonl",
    )
    spec = ReplaySpec(entries=tuple(entries), prefix_block=8)
    _, records = replay(spec, is_prefix_caching=True)
    assert [record.num_cached_tokens for record in in_order(records)] == [0, 8]


def test_turns_behind_another_call_are_as_long_and_share_with_it_what_they_shared() -> None:
    entries = parse_trace(
        trace(
            entry(0, id="a", prompt_tokens=8, prefix_hashes=["x"]),
            entry(1, id="b", after="a", tool_wait=5.0, prompt_tokens=30, prefix_hashes=["x", "y"]),
            entry(2, after="b", prompt_tokens=40),
        ),
        "t.jsonl",
    )
    traffic = ReplayedTraffic(ReplaySpec(entries=tuple(entries), prefix_block=5), TokenSpace())
    recorded = traffic.next_call()
    assert recorded is not None
    assert recorded[1].conversation is not None
    other = call(num_prompt_tokens=8, num_output_tokens=4)
    [(wait, second)] = recorded[1].conversation.like(other, "1").next_turns()
    assert (wait, len(second.prompt), len(second.answer)) == (5.0, 30, 3)
    assert second.prompt[:10] == (*other.prompt, *other.answer[:2]), "two blocks of five"
    assert second.conversation is not None
    [(_, third)] = second.conversation.next_turns()
    assert len(third.prompt) == 40
    assert not set(third.prompt) & set(second.prompt), "it had no hashes"
    assert third.conversation is None


def test_records_are_a_trace(tmp_path: Path) -> None:
    fleet, records = small_fleet()
    fleet.put_call(call(num_output_tokens=4, max_tokens=6, tenant="gold"))
    fleet.timeline.at(2, lambda: fleet.put_call(call(num_output_tokens=2)))
    fleet.timeline.at(3, lambda: fleet.put_call(call(num_prompt_tokens=200)))  # invalid
    fleet.run()
    file = tmp_path / "records.jsonl"
    file.write_bytes(b"".join(encode_record(record) + b"\n" for record in records.take()))
    entries = read_trace(file)
    assert [(e.prompt_tokens, e.output_tokens, e.tenant) for e in entries] == [
        (5, 4, "gold"),
        (5, 2, "default"),
    ]
    assert entries[0].max_tokens == 6
    assert entries[1].at - entries[0].at == 2
    assert entries[0].request_class == "all"
    _, again = replay(ReplaySpec(entries=tuple(entries), class_header="x-class"))
    assert [record.num_output_tokens for record in in_order(again)] == [4, 2]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"{", "t.jsonl:2: "),
        (b"[]", "it is no object"),
        (b'{"at": 1, "prompt_tokens": 0, "output_tokens": 1}', "prompt_tokens is 0"),
        (b'{"at": 1, "output_tokens": 1}', "prompt_tokens"),
        (b'{"at": 1, "prompt_tokens": %d, "output_tokens": 1}' % 10**20, r"t\.jsonl:2: prompt_tok"),
        (
            b'{"at": 1, "prompt_tokens": 1, "output_tokens": %d, "max_tokens": %d}'
            % (9 * 10**18, 10**20),
            r"output_tokens is 9000000000000000000; it must be from 1 to 10000000",
        ),
        (
            b'{"at": 1, "prompt_tokens": 1, "output_tokens": 1, "max_tokens": %d}' % 10**20,
            "max_tokens is 100000000000000000000; leave it out or ask for 1 to 10000000",
        ),
        (b"[" * 5000, r"t\.jsonl:2: its values lie within each other too deeply; a line is a"),
        (
            b'{"arrived_at_unix_ns": "now", "num_prompt_tokens": 1, "num_output_tokens": 1}',
            "t.jsonl:2: arrived_at_unix_ns is no number of nanoseconds",
        ),
        (b'{"at": 1, "prompt_tokens": 1, "output_tokens": 1, "after": "x"}', "comes after 'x'"),
    ],
)
def test_a_line_that_says_no_call_is_named(line: bytes, what: str) -> None:
    with pytest.raises(TraceError, match=what):
        parse_trace([*trace(entry(0)), line], "t.jsonl")


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ([entry(0, id="a"), entry(1), entry(2, id="a")], r"t.jsonl:3: id 'a' is that of line 1"),
        ([entry(0, id="a", after="a")], r"t.jsonl:1: a call waits for its own answer"),
        (
            [
                entry(0, id="begin"),
                entry(1, id="tail", after="x"),
                entry(2, id="x", after="y"),
                entry(3, id="y", after="x"),
            ],
            r"t.jsonl:3: the calls of lines 3, 4 wait for each other",
        ),
    ],
)
def test_calls_that_would_be_lost_or_doubled_are_named(
    entries: list[dict[str, Any]], what: str
) -> None:
    with pytest.raises(TraceError, match=what):
        parse_trace(trace(*entries), "t.jsonl")


def test_a_conversation_of_many_turns_may_branch() -> None:
    turns = [entry(n, id=n, after=n - 1 if n else None) for n in range(3)]
    entries = parse_trace(trace(*turns, entry(9, after=0)), "t.jsonl")
    _, records = replay(ReplaySpec(entries=tuple(entries)))
    assert len(in_order(records)) == 4
