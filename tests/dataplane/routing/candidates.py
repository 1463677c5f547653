"""Candidates as tests need them."""

from typing import Any

from dataplane.routing.candidate import Candidate
from dataplane.routing.request import RoutedRequest


def candidate(replica_id: str, num_outstanding: int = 0, **fields: Any) -> Candidate:
    fields = {"max_outstanding": None} | fields
    return Candidate(replica_id=replica_id, num_outstanding=num_outstanding, **fields)


def routed(
    num_prompt_tokens: int = 100, num_output_tokens: int = 0, **num_cached_tokens: int
) -> RoutedRequest:
    return RoutedRequest(num_prompt_tokens, num_output_tokens, num_cached_tokens)
