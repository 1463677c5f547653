"""Blows: processes that are killed or told to end while requests run, in a fixed order."""

import asyncio
import itertools
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import structlog

from dataplane.processes import kill_group, send_signal
from ops.endurance.installation import Installation

SUPERVISOR = "supervisor"
_LOOK_SECONDS = 0.1
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """Whom it strikes, and how: SIGKILL at any instruction, SIGTERM as an operator would."""

    role: str
    signal_number: signal.Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A blow that fell."""

    role: str
    name: str
    signal_name: str
    at_unix_ns: int


HANDOVER = Blow(role=SUPERVISOR, signal_number=signal.SIGUSR1)
"""A new gateway takes over from the one that serves: no client may notice, so it excuses nobody."""

KILLS = (
    Blow(role="replica", signal_number=signal.SIGKILL),
    Blow(role="gateway", signal_number=signal.SIGKILL),
    Blow(role="controlplane", signal_number=signal.SIGKILL),
    HANDOVER,
    Blow(role="gateway", signal_number=signal.SIGTERM),
)
"""One of each that can lose something, and a handover, which must lose nothing."""

ROUND = (
    Blow(role="replica", signal_number=signal.SIGKILL),
    Blow(role="gateway", signal_number=signal.SIGKILL),
    Blow(role="controlplane", signal_number=signal.SIGTERM),
    Blow(role="replica", signal_number=signal.SIGTERM),
    Blow(role="gateway", signal_number=signal.SIGTERM),
    Blow(role="controlplane", signal_number=signal.SIGKILL),
    HANDOVER,
)
"""Every process both ways, and a handover between two gateways."""


def long_order(num_rounds: int) -> list[Blow]:
    """Round after round, with the supervisor itself struck once in the middle."""
    rounds = [list(ROUND) for _ in range(num_rounds)]
    middle = Blow(role=SUPERVISOR, signal_number=signal.SIGKILL)
    rounds[num_rounds // 2].append(middle)
    return list(itertools.chain.from_iterable(rounds))


@dataclass(slots=True, kw_only=True)
class Striker:
    """Lets the blows fall, evenly over the requests, until cancelled.

    A process that is struck again within `gap_seconds` of the last blow is left alone so long:
    a supervisor may give up what does not stay up.
    """

    installation: Installation
    blows: Sequence[Blow]
    num_requests: int
    gap_seconds: float
    random: Random
    struck: list[Struck] = field(default_factory=list)
    _last_at: dict[str, float] = field(default_factory=dict)

    async def run(self, num_begun: Callable[[], int]) -> None:
        """`num_begun` tells how many requests were begun."""
        share = self.num_requests / (len(self.blows) + 1)
        for number, blow in enumerate(self.blows, 1):
            has_struck = False
            while not has_struck:
                await asyncio.sleep(_LOOK_SECONDS)
                if num_begun() >= number * share and self._is_time_for(blow.role):
                    has_struck = await asyncio.to_thread(self._strike, blow)

    def _is_time_for(self, role: str) -> bool:
        gap = self.gap_seconds
        if role == "replica":
            gap /= self.installation.num_replicas
        return time.monotonic() - self._last_at.get(role, float("-inf")) >= gap

    def _strike(self, blow: Blow) -> bool:
        """False when there is nobody to strike now."""
        if blow.role == SUPERVISOR:
            return self._strike_supervisor(blow)
        alive = self.installation.alive(blow.role)
        if not alive:
            return False
        target = self.random.choice(alive)
        if blow.signal_number is signal.SIGKILL:
            kill_group(target)
        else:
            send_signal(target, blow.signal_number)
        self._note(blow, target.name)
        return True

    def _strike_supervisor(self, blow: Blow) -> bool:
        supervisor = self.installation.supervisor
        assert supervisor is not None
        if blow is HANDOVER and len(self.installation.alive("gateway")) != 1:
            return False  # it is away, or one is under way
        supervisor.send_signal(blow.signal_number)
        self._note(blow, SUPERVISOR)
        if blow is not HANDOVER:
            supervisor.wait()
            self.installation.start()
        return True

    def _note(self, blow: Blow, name: str) -> None:
        self._last_at[blow.role] = time.monotonic()
        struck = Struck(
            role=blow.role,
            name=name,
            signal_name=blow.signal_number.name,
            at_unix_ns=time.time_ns(),
        )
        self.struck.append(struck)
        _log.info("struck", process=name, signal=struck.signal_name)
