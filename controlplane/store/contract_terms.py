"""What a revision of a contract promised a request class, for judging after the fact."""

from collections.abc import Callable
from threading import Lock

from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.enforced import contract_policy
from controlplane.specs.kind import Kind
from controlplane.store.database import Database
from controlplane.store.revisions import find_revision
from dataplane.contract_terms import ContractTerms
from dataplane.policy import ContractPolicy

FindTerms = Callable[[str | None, str | None], ContractTerms | None]
"""By contract revision (`name@number`) and request class."""

_MAX_KEPT = 256


class ContractTermsBook:
    """Reads each revision once, as revisions never change. Threads share it."""

    def __init__(self, config: Database) -> None:
        self._config = config
        self._lock = Lock()
        self._kept: dict[str, ContractPolicy] = {}

    def find(self, revision: str | None, request_class: str | None) -> ContractTerms | None:
        """None: no contract was in force, this database does not know it, or it is silent here."""
        if revision is None or request_class is None:
            return None
        policy = self._kept.get(revision) or self._read(revision)
        return None if policy is None else policy.terms_by_class.get(request_class)

    def _read(self, revision: str) -> ContractPolicy | None:
        name, _, number = revision.rpartition("@")
        if not name or not number.isascii() or not number.isdigit() or len(number) > 18:
            return None
        with self._config.reading() as session:
            found = find_revision(session, Kind.SLO_CONTRACT, name, int(number))
        if found is None:
            return None
        policy = contract_policy(revision, found.spec(SLOContractSpec))
        with self._lock:
            while len(self._kept) >= _MAX_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[revision] = policy
        return policy
