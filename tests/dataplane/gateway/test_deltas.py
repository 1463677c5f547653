"""Streamed deltas become the one message of a whole answer."""

from dataplane.gateway.openai_api.deltas import merge_deltas


def test_tool_calls_are_merged_by_their_index_and_lose_it() -> None:
    merged = merge_deltas(
        [
            {"reasoning_content": "Hm"},
            {"reasoning_content": "."},
            {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}]},
            {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        ]
    )
    assert merged == {
        "reasoning_content": "Hm.",
        "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_an_id_that_is_told_again_is_not_doubled() -> None:
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "1"}}
    (merged,) = merge_deltas([{"tool_calls": [call]}, {"tool_calls": [call]}])["tool_calls"]
    assert (merged["id"], merged["type"], merged["function"]["name"]) == ("a", "function", "f")
    assert merged["function"]["arguments"] == "11"


def test_the_deltas_themselves_are_left_as_they_are() -> None:
    delta = {"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}
    merge_deltas([delta, delta])
    assert delta == {"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}


def test_items_without_an_index_are_kept_one_after_another() -> None:
    assert merge_deltas([{"audio": [1]}, {"audio": [2]}]) == {"audio": [1, 2]}
