"""What tenants use of one deployment: requests at once, and tokens in a sliding minute.

A request is charged when it comes in, with its prompt and the output that is expected of it;
when it ends, what it really used is charged instead. A charge counts for a minute from when it
was made, so the moment at which enough of them have slid out is known::

     minute  |<------------------------ 60 s ------------------------>| now
     charges |  400      900            250             1200          |
                ^ after this one has left there is room for 400 more

What a request used beyond its charge is charged at its end, in a minute that may be a later
one: every token counts once, however long the answer took. A request larger than all of a
minute is let in when nothing else is charged, since it would otherwise never be.

This is the use of one gateway process; several of them do not add theirs up.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from dataplane.clock import MonotonicClock
from dataplane.leases.lease import Lease

WINDOW_SECONDS = 60.0


class UseLimits(Protocol):
    """What one tenant may use; None: no limit."""

    @property
    def tokens_per_minute(self) -> int | None: ...
    @property
    def max_concurrent(self) -> int | None: ...


class UseLimit(StrEnum):
    """Which of the two is reached."""

    CONCURRENCY = "concurrency"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class UseShortage:
    """A tenant may not have one more request now."""

    limit: UseLimit
    reason: str
    retry_after_seconds: float | None
    """When the charges that stand will have made room, if nobody takes it; None: when one of its
    own requests ends, which no clock tells."""


@dataclass(slots=True, eq=False)
class _Charge:
    """Tokens that count until then."""

    until: float
    num_tokens: int


class TokenLease(Lease):
    """One request of a tenant: a place among those at once, and what it is charged."""

    __slots__ = ("_charge", "_is_settled", "_tenant")

    def __init__(self, tenant: "_Tenant", charge: _Charge) -> None:
        super().__init__(tenant.leave)
        self._tenant = tenant
        self._charge = charge
        self._is_settled = False

    def settle(self, num_tokens: int) -> None:
        """Charge what was really used instead. Once: what comes later is no error and changes
        nothing. Without it the request stays charged with what was expected of it."""
        if not self._is_settled and self.is_held:
            self._is_settled = True
            self._tenant.settle(self._charge, num_tokens)


class TenantUse:
    """All tenants of one deployment. A tenant that used nothing for a minute is forgotten."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._tenants: dict[str, _Tenant] = {}
        self._swept_at = clock()

    def find_shortage(self, tenant: str, num_tokens: int, limits: UseLimits) -> UseShortage | None:
        """Why one more request may not come in now, charged with so many tokens; None: it may."""
        known = self._tenants.get(tenant)
        return None if known is None else known.find_shortage(num_tokens, limits)

    def try_take(self, tenant: str, num_tokens: int, limits: UseLimits) -> TokenLease | UseShortage:
        """Let one more request in, charged with so many tokens, until its lease ends."""
        shortage = self.find_shortage(tenant, num_tokens, limits)
        if shortage is not None:
            return shortage
        self._sweep()
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Tenant(tenant, self._clock)
        return TokenLease(known, known.enter(num_tokens))

    def num_in_flight(self, tenant: str) -> int:
        """Requests of the tenant that hold a lease."""
        known = self._tenants.get(tenant)
        return 0 if known is None else known.num_in_flight

    def num_tokens(self, tenant: str) -> int:
        """Charged in the minute up to now."""
        known = self._tenants.get(tenant)
        return 0 if known is None else known.num_tokens

    def in_flight_by_tenant(self) -> Mapping[str, int]:
        """Of those that have any."""
        return {t.name: t.num_in_flight for t in self._tenants.values() if t.num_in_flight}

    @property
    def num_remembered(self) -> int:
        """Tenants, those that used nothing for less than two minutes included."""
        return len(self._tenants)

    def check_integrity(self) -> None:
        """Raises AssertionError when a sum is not that of its charges."""
        for tenant in self._tenants.values():
            tenant.check_integrity()

    def _sweep(self) -> None:
        """Once a minute: memory is bounded by who used something lately."""
        now = self._clock()
        if now - self._swept_at >= WINDOW_SECONDS:
            self._swept_at = now
            self._tenants = {t.name: t for t in self._tenants.values() if not t.is_idle}


class _Tenant:
    def __init__(self, name: str, clock: MonotonicClock) -> None:
        self.name = name
        self.num_in_flight = 0
        self._clock = clock
        self._charges: deque[_Charge] = deque()  # oldest first
        self._total = 0

    @property
    def num_tokens(self) -> int:
        self._slide()
        return self._total

    @property
    def is_idle(self) -> bool:
        return not self.num_in_flight and not self.num_tokens

    def find_shortage(self, num_tokens: int, limits: UseLimits) -> UseShortage | None:
        most = limits.max_concurrent
        if most is not None and self.num_in_flight >= most:
            return UseShortage(
                limit=UseLimit.CONCURRENCY,
                reason=f"tenant {self.name} has {self.num_in_flight} requests in flight, "
                f"and max_concurrent is {most}",
                retry_after_seconds=None,
            )
        per_minute = limits.tokens_per_minute
        if per_minute is None:
            return None
        excess = self.num_tokens + min(num_tokens, per_minute) - per_minute
        if excess <= 0:
            return None
        return UseShortage(
            limit=UseLimit.TOKENS,
            reason=f"tenant {self.name} was charged {self._total} tokens within a minute, "
            f"{num_tokens} more are wanted, and tokens_per_minute is {per_minute}",
            retry_after_seconds=self._seconds_until_gone(excess),
        )

    def enter(self, num_tokens: int) -> _Charge:
        self.num_in_flight += 1
        return self._charge(num_tokens)

    def leave(self) -> None:
        self.num_in_flight -= 1

    def settle(self, charge: _Charge, num_tokens: int) -> None:
        surplus = num_tokens - charge.num_tokens
        if surplus > 0:
            self._charge(surplus)
            return
        if charge.until > self._clock():  # it has not slid out
            charge.num_tokens += surplus
            self._total += surplus

    def check_integrity(self) -> None:
        if self.num_in_flight < 0:
            raise AssertionError(f"tenant {self.name} has {self.num_in_flight} in flight")
        charged = sum(charge.num_tokens for charge in self._charges)
        if charged != self._total or self._total < 0:
            raise AssertionError(
                f"tenant {self.name}: the charges add up to {charged}, and {self._total} is kept"
            )

    def _charge(self, num_tokens: int) -> _Charge:
        charge = _Charge(self._clock() + WINDOW_SECONDS, num_tokens)
        self._charges.append(charge)
        self._total += num_tokens
        return charge

    def _slide(self) -> None:
        charges, now = self._charges, self._clock()
        while charges and charges[0].until <= now:
            self._total -= charges.popleft().num_tokens

    def _seconds_until_gone(self, num_tokens: int) -> float:
        """Until so many tokens have slid out."""
        for charge in self._charges:
            num_tokens -= charge.num_tokens
            if num_tokens <= 0:
                return charge.until - self._clock()
        raise AssertionError(f"tenant {self.name}: fewer tokens are charged than are too many")
