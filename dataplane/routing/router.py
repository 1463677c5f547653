"""Routing of one deployment: everything that is asked before, around and behind its policy.

    free replicas -> share of those that come back -> the session's own -> the policy -> placement

The queue asks it for whoever starts, with the replicas that have room; it answers with a placement
that counts from then on. Where nothing special is at work (no session, no prefixes, nobody comes
back, no reason wanted) a choice costs what its policy costs.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence, Set
from operator import itemgetter
from random import Random

from dataplane.clock import MonotonicClock
from dataplane.decision import MAX_CANDIDATES, RoutingCandidate, RoutingDecision, clip, keep_best
from dataplane.policy import RoutingTerms
from dataplane.prefix_report import PrefixReport
from dataplane.routing import least_outstanding
from dataplane.routing.candidate import Candidate
from dataplane.routing.ejection import Ejections, EjectionTerms
from dataplane.routing.first_token_time import FirstTokenTime
from dataplane.routing.least_outstanding import LeastOutstanding
from dataplane.routing.placement import Placement
from dataplane.routing.policy import Pick
from dataplane.routing.prefix_index import PrefixIndex
from dataplane.routing.prompt_blocks import BLOCK_TOKENS
from dataplane.routing.reported_load import judge_report
from dataplane.routing.request import UNKNOWN_WORK, RoutedRequest, RoutingRequest
from dataplane.routing.routing import Routing
from dataplane.routing.session_affinity import SessionAffinity
from dataplane.routing.signals import read_signals
from dataplane.routing.two_choices import TwoChoices

CHECK_SECONDS = 1.0
"""How often it is looked for replicas that are slow, or may come back."""

SESSION_AFFINITY = "session_affinity"
"""What decisions call a choice for the sake of a session."""
_LEAST = RoutingTerms(policy=least_outstanding.NAME)
_score = itemgetter(1)
_NOTHING: Mapping[str, int] = {}


class Router:
    """One event loop, or one simulation, owns it."""

    def __init__(
        self,
        clock: MonotonicClock,
        routing: Routing,
        random: Random,
        *,
        explains: bool,
        finds_prefixes: bool = True,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`random` decides who of those that come back gets a request, and by what policy falls
        back on. `explains`: each placement holds its decision. `finds_prefixes`: some
        replica may find a prompt again, so that policies are shown who. `on_change` is called when
        somebody is ejected or let back, never inside `choose`."""
        self._fallback = TwoChoices(random)
        self._take_routing(routing)
        self.clock = clock
        self.on_change = on_change
        self.explains = explains
        self.measures_pace = False
        """Whether placements note how fast answers come."""
        self.first_tokens: FirstTokenTime | None = None
        """How long they take from the slot; None: nobody asks."""
        self._finds_prefixes = finds_prefixes
        self.ejections = Ejections(routing.ejection, clock())
        self.index = PrefixIndex(BLOCK_TOKENS)
        self._affinity = SessionAffinity()
        self._failure: str | None = None
        self._draw = random.random
        self.next_check_at = clock() + CHECK_SECONDS
        """Before, `check` does nothing."""

    @property
    def wants_prefixes(self) -> bool:
        """Requests should come with the hashes of their blocks."""
        return self._finds_prefixes and self._policy.wants_prefixes

    @property
    def policy_name(self) -> str:
        """What decisions call its policy."""
        return self._policy.name

    def take_failure(self) -> str | None:
        """How its policy last failed to choose, since this was asked; None: it did not."""
        failure, self._failure = self._failure, None
        return failure

    @property
    def num_remembered(self) -> int:
        """Entries of the prefix index, and of what sessions are kept by."""
        return self.index.num_blocks + self._affinity.num_remembered

    @property
    def affinity_header(self) -> str | None:
        """Requests with the same value of it are of one session; in lower case."""
        return self._routing.terms.affinity_header

    def set_routing(self, routing: Routing) -> None:
        """Another revision's. What is known of replicas stays known."""
        self._take_routing(routing)
        self.ejections.terms = routing.ejection

    def _take_routing(self, routing: Routing) -> None:
        self._problems = () if routing.problem is None else (routing.problem,)
        self._routing, self._policy = routing, routing.policy
        self._draws_two = isinstance(routing.policy, TwoChoices)

    def choose(
        self,
        request: RoutingRequest | None,
        candidates: Sequence[Candidate],
        excluded: Set[str] = frozenset(),
    ) -> Placement:
        """A replica for a request that starts now, of those with room for it: never empty.

        It counts there from now on, until `Placement.end`. `excluded`, which are not among the
        candidates, failed it before: the decision tells so.
        """
        now = self.clock()
        if request is None:
            request = UNKNOWN_WORK
        if self.ejections.is_anybody_returning:
            candidates = self._share_out(candidates, now)
        if self._draws_two and not self.explains and request.affinity_key is None:
            # As the way below, at a fraction of the cost.
            return Placement(self, self._fallback.draw(candidates), request, 0, None, now)
        cached = self.index.find(request.blocks) if request.blocks else _NOTHING
        pick, policy = self._pick(request, candidates, cached)
        chosen, decision, num_cached = pick.chosen, None, 0
        if self.explains:
            decision = self._explain(pick, policy, len(candidates), cached, excluded, now)
        if request.blocks:
            num_cached = cached.get(chosen.replica_id, 0)
            num_cached = min(num_cached, max(0, request.num_prompt_tokens - 1))
            self.index.note_sent(chosen.replica_id, request.blocks)
        return Placement(self, chosen, request, num_cached, decision, now)

    def set_replicas(self, enforced: Set[str], connected: Set[str]) -> None:
        """All there are, and those that can be reached: what others had cached ended with their
        processes."""
        for replica_id in self.index.replica_ids() - connected:
            self.index.forget(replica_id)
        self.ejections.set_replicas(enforced, connected, self.clock())

    def check(self) -> bool:
        """Look for who is slow, or may come back, now and then; True: it was time to."""
        now = self.clock()
        if now < self.next_check_at:
            return False
        self.next_check_at = now + CHECK_SECONDS
        if self.ejections.check(now):
            self.on_change()
        return True

    def note_report(
        self,
        candidate: Candidate,
        num_running: int | None,
        num_waiting: int | None,
        age_seconds: float,
        max_num_seqs: int | None,
    ) -> None:
        """A replica told of its load, so many seconds ago."""
        report = judge_report(
            num_running,
            num_waiting,
            self.clock() - age_seconds,
            fewest_held=candidate.fewest_outstanding,
            most_held=candidate.most_outstanding,
            max_num_seqs=max_num_seqs,
            before=candidate.reported,
        )
        candidate.reported, candidate.num_foreign = report, report.num_foreign
        candidate.fewest_outstanding = candidate.num_outstanding
        candidate.most_outstanding = candidate.num_outstanding

    def note_prefixes(self, replica_id: str, report: PrefixReport) -> bool:
        """An engine told what of prompts it can find again. False: ask it for all of it."""
        return self.index.take_report(replica_id, report, self.clock())

    def note_end(self, placement: Placement, has_failed: bool) -> None:
        """For placements alone."""
        now = self.clock()
        if self.ejections.note_end(placement.replica_id, placement, has_failed, now):
            self.on_change()
        elif now >= self.next_check_at:
            self.check()

    def note_first_token(self, placement: Placement, seconds: float) -> None:
        """It came so long after its slot. One that is ejected is sent nothing: what it takes says
        nothing of what others will."""
        if self.first_tokens is not None and self.ejections.why_out(placement.replica_id) is None:
            self.first_tokens.note(placement.num_prompt_tokens, seconds)

    def note_found(self, replica_id: str, num_thought: int, num_found: int) -> None:
        """An engine told how much of a prompt it had. Of one that had less than half of what was
        thought, the older half is forgotten: it has evicted more than was counted."""
        if 2 * num_found < num_thought:
            self.index.forget_half(replica_id)

    def _pick(
        self, request: RoutingRequest, candidates: Sequence[Candidate], cached: Mapping[str, int]
    ) -> tuple[Pick, str]:
        """And by what name."""
        if request.affinity_key is not None:
            kept = self._affinity.choose(request.affinity_key, candidates)
            pick = Pick(kept, ((kept, float(kept.load)),), "the replica of its session")
            return pick, SESSION_AFFINITY
        policy = self._policy
        routed = RoutedRequest(request.num_prompt_tokens, request.num_output_tokens, cached)
        try:
            pick = policy.choose(routed, candidates, self.explains)
            if pick.chosen not in candidates:
                raise ValueError("it chose none of the candidates")
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not cost the request
            self._failure = repr(error)
            pick = self._fallback.choose(routed, candidates, self.explains)
            failure = f"policy {policy.name} failed: {type(error).__name__}: {error}"
            pick = pick._replace(degraded=(failure,))
        return pick, policy.name

    def _share_out(self, candidates: Sequence[Candidate], now: float) -> Sequence[Candidate]:
        """Without those that come back, but for their share; all, where that leaves nobody."""
        shares, draw = self.ejections.shares(now), self._draw
        kept = [
            each
            for each in candidates
            if each.replica_id not in shares or draw() < shares[each.replica_id]
        ]
        return kept or candidates

    def _explain(
        self,
        pick: Pick,
        policy: str,
        num_candidates: int,
        cached: Mapping[str, int],
        excluded: Set[str],
        now: float,
    ) -> RoutingDecision:
        chosen = pick.chosen
        best: list[tuple[Candidate, float | None]] = []
        best += heapq.nsmallest(MAX_CANDIDATES, pick.scores, key=_score)
        if all(each is not chosen for each, _ in best):
            best.append((chosen, next((s for each, s in pick.scores if each is chosen), None)))
        told = [
            RoutingCandidate(
                replica_id=each.replica_id,
                score=score,
                signals=read_signals(
                    each, cached.get(each.replica_id), self.index.told_at(each.replica_id), now
                ),
            )
            for each, score in best
        ]
        told += self._left_out(excluded)
        distrust = tuple(
            f"{each.replica_id}: {each.reported.why_not}; the gateway's own counts stand"
            for each, _ in best
            if each.reported is not None and each.reported.why_not is not None
        )
        return RoutingDecision(
            attempt=0,
            policy=policy,
            chosen=chosen.replica_id,
            reason=clip(pick.reason),
            candidates=keep_best(told, chosen.replica_id),
            num_candidates=num_candidates,
            degraded=tuple(clip(each) for each in (*self._problems, *pick.degraded, *distrust)),
        )

    def _left_out(self, excluded: Set[str]) -> list[RoutingCandidate]:
        failed = [
            RoutingCandidate(replica_id=each, why_not="it failed this request, or is kept")
            for each in excluded
        ]
        ejected = [
            RoutingCandidate(replica_id=replica_id, why_not=f"ejected: {why}")
            for replica_id, why in self.ejections.ejected().items()
            if replica_id not in excluded
        ]
        return failed + ejected


def plain_router(clock: MonotonicClock) -> Router:
    """The fewest held, and nothing else."""
    routing = Routing(terms=_LEAST, policy=LeastOutstanding(), ejection=EjectionTerms())
    return Router(clock, routing, Random(0), explains=False)
