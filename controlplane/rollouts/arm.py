"""The two sides of a rollout."""

from enum import StrEnum


class Arm(StrEnum):
    """Who answered a request while a rollout was under way."""

    STABLE = "stable"
    """What ran before, and runs again when the rollout is aborted."""
    CANDIDATE = "candidate"
    """What is tried."""
