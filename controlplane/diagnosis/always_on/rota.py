"""Whose turn it is in a fleet that is too large to be asked whole each time.

One page of each replica every few minutes tells a level and no course, and nobody can answer by it.
So a deployment is left alone until its turn comes; then two of its replicas are asked every twenty
seconds for a minute, and the rules look once, at the end. The answer is some minutes old and says
how old, and how many replicas it is by; other replicas are asked in the next turn. Suspects go
before the rest, in three of four places.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.diagnosis.always_on.turns import Target

_SAMPLED = 2
"""Replicas in one turn."""
_ROUNDS = 4
_EVERY_SECONDS = 20.0
"""Four pages in a minute: the least by which rules tell a course from a moment."""
_SUSPECT_SHARE = 0.75
"""Of the places: what looks well may be about to change, and always gets some."""


@dataclass(slots=True)
class _Turn:
    """Of one deployment."""

    replica_ids: frozenset[str]
    asked_at: float
    num_left: int
    """Rounds that are still to come."""


class Rota:
    """Of all deployments of one control plane. One thread uses it."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._completed: dict[str, float] = {}
        self._rotating: frozenset[str] = frozenset()

    def choose(
        self,
        targets: Sequence[Target],
        suspects: frozenset[str],
        last_asked: Mapping[str, float],
        now: float,
        most: int,
    ) -> list[Target]:
        """At most `most` of them, more than which there are."""
        waiting = sorted(
            targets, key=lambda each: (last_asked.get(each.replica_id, -1.0), each.replica_id)
        )
        self._forget_others({each.deployment for each in targets})
        near = [each for each in waiting if each.deployment in suspects]
        far = [each for each in waiting if each.deployment not in suspects]
        num_near = max(round(most * _SUSPECT_SHARE), most - len(far))
        rotating: set[str] = {each.deployment for each in far}
        if len(near) <= num_near:
            chosen = near
        else:
            rotating |= {each.deployment for each in near}
            chosen = self._turn(near, now, num_near)
        self._rotating = frozenset(rotating)
        return [*chosen, *self._turn(far, now, most - len(chosen))]

    def ask_all(self) -> None:
        """There are no more than can be asked each time: nobody takes turns."""
        self._turns, self._rotating = {}, frozenset()

    def may_be_looked_at(self, deployment: str, last_looked: float) -> bool:
        """Not in the middle of its turn, when a moment is all that is known, nor without a new
        one."""
        if deployment not in self._rotating:
            return True
        return self._completed.get(deployment, -1.0) > last_looked

    def _forget_others(self, deployments: Iterable[str]) -> None:
        known = frozenset(deployments)
        self._turns = {name: each for name, each in self._turns.items() if name in known}
        self._completed = {name: at for name, at in self._completed.items() if name in known}

    def _turn(self, waiting: Sequence[Target], now: float, most: int) -> list[Target]:
        """Those in their turn whose next round it is, and then who waited longest for one."""
        by_deployment: dict[str, list[Target]] = {}
        for each in waiting:
            by_deployment.setdefault(each.deployment, []).append(each)
        chosen: list[Target] = []
        in_turn = sorted(
            (self._turns[name].asked_at, name) for name in by_deployment if name in self._turns
        )
        for asked_at, name in in_turn:
            turn = self._turns[name]
            own = [each for each in by_deployment[name] if each.replica_id in turn.replica_ids]
            if now - asked_at >= _EVERY_SECONDS - _EARLY_SECONDS and len(chosen) + len(own) <= most:
                chosen += own
                self._note(name, turn, now)
        for name in sorted(
            by_deployment.keys() - self._turns.keys() - {name for _, name in in_turn},
            key=lambda name: (self._completed.get(name, -1.0), name),
        ):
            own = by_deployment[name][:_SAMPLED]
            if len(chosen) + len(own) > most:
                break
            chosen += own
            ids = frozenset(each.replica_id for each in own)
            self._turns[name] = _Turn(ids, now, _ROUNDS - 1)
        return chosen

    def _note(self, name: str, turn: _Turn, now: float) -> None:
        turn.asked_at, turn.num_left = now, turn.num_left - 1
        if turn.num_left <= 0:
            self._completed[name] = now
            del self._turns[name]


_EARLY_SECONDS = 2.0
"""Passes are not exactly as far apart as they should be."""
