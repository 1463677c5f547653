"""What the absence of a time means: that it never happened, or that nobody can say. Pure.

Only a gateway that saw a request to its end may say that something never happened. One that
ended first told what its journal held: that a replica was given it, that writing had begun.
"""

from dataplane.lifecycle import Delivery, Disposition


def is_end_unseen(disposition: str) -> bool:
    """Nobody saw how far it came."""
    return disposition == Disposition.LOST


def why_no_queue_time(disposition: str, replica_id: str | None) -> str:
    """Of a request without one."""
    if is_end_unseen(disposition):
        given = "no replica had it yet" if replica_id is None else "a replica had been chosen"
        return f"unknown: its gateway ended first; as last noted, {given}"
    return "it never reached an engine" if replica_id is None else "no engine began to work on it"


def why_no_ttft(disposition: str) -> str:
    """Of a request without one."""
    if is_end_unseen(disposition):
        return "unknown: its gateway ended first"
    return "no first token was seen at the contract's boundary"


def why_no_e2e(disposition: str) -> str:
    """Of a request without one."""
    if is_end_unseen(disposition):
        return "unknown: its gateway ended first"
    return "no complete answer was delivered"


def why_not_scheduled(disposition: str, is_last: bool) -> str:
    """Of an attempt whose begin nobody noted; of an earlier one its successor tells nothing."""
    if is_end_unseen(disposition):
        return "whether and when work began there is unknown" if is_last else "unknown since when"
    return "never scheduled there"


def describe_delivery(delivery: str, disposition: str) -> str:
    """How much of the answer went out."""
    if not is_end_unseen(disposition):
        return delivery
    return "none noted" if delivery == Delivery.NONE else "begun, how much is unknown"
