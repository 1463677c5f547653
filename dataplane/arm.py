"""The two arms of a rollout, and which of them a request belongs to."""

import hashlib
from enum import StrEnum

_ALL = 2**64


class Arm(StrEnum):
    """Who answers a request while a rollout is under way."""

    STABLE = "stable"
    """What ran before, and runs again when the rollout is aborted."""
    CANDIDATE = "candidate"
    """What is tried."""


def choose_arm(rollout: int, share: float, tenant: str, session: str) -> Arm:
    """Always the same for one session of a tenant, and for another rollout another one.

    Of a share that grows, whoever had the candidate keeps it. `share` is the candidate's, 0 to 1.
    """
    # The length of the first part keeps ("a", "bc") and ("ab", "c") apart.
    key = f"{rollout} {len(tenant)} {tenant}{session}".encode()
    place = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest())
    return Arm.CANDIDATE if place < share * _ALL else Arm.STABLE
