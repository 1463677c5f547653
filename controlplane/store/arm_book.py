"""What the requests of each rollout's step come to so far, each of them read once.

Every look asks which rows there are, and reads those that are new, however late they came. Where
what was read is no longer as it was (a client reported, retention took it, a smaller part is read
of more requests) all is read anew; so it is after a restart.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from controlplane.rollouts.analysis.measures import Measure
from controlplane.rollouts.analysis.tally import Tally, tally_of
from controlplane.store.arm_requests import StepScope, read_arm_requests, read_marks
from controlplane.store.contract_terms import FindTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    scope: StepScope
    marks: frozenset[int]
    tally: Tally


class ArmBook:
    """One page for each rollout under way. Of one thread."""

    def __init__(self, find_terms: FindTerms) -> None:
        """`find_terms`: what the contract promised that a request was judged by."""
        self._find_terms = find_terms
        self._pages: dict[int, _Page] = {}

    def keep_only(self, rollouts: Collection[int]) -> None:
        """Forget those that are over."""
        self._pages = {number: page for number, page in self._pages.items() if number in rollouts}

    def tally(self, session: Session, scope: StepScope, measures: Iterable[Measure]) -> Tally:
        """Of all requests of the step that ended so far, by the same measures at each look."""
        marks = read_marks(session, scope)
        page = self._pages.get(scope.rollout)
        if page is None or page.scope != scope or not page.marks <= marks.keys():
            page = _Page(scope=scope, marks=frozenset(), tally=tally_of([], measures))
        unread = marks.keys() - page.marks
        if unread:
            since = min(marks[mark] for mark in unread)
            requests = read_arm_requests(session, scope, unread, since, self._find_terms)
            tally = page.tally.plus(tally_of(list(requests.values()), measures))
            page = _Page(scope=scope, marks=page.marks | requests.keys(), tally=tally)
        self._pages[scope.rollout] = page
        return page.tally
