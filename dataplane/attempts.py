"""How often a request may lose its replica: a pure rule, and the number in it."""

from dataplane.lifecycle import State

MAX_ATTEMPTS = 2
"""A request loses its replica at most once before it is given up."""
RETRY_BUDGET_SPENT = "the retry budget leaves no try on another replica"
"""Why one that might be tried again is not, in words."""


def may_try_again(state: State, num_attempts: int) -> bool:
    """A request that lost a replica may go to another: nothing was produced, let alone written."""
    return num_attempts < MAX_ATTEMPTS and state in (State.QUEUED, State.PREFILL)
