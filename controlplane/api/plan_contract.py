"""A changed contract in a plan: what it would have said of the traffic of the last hour."""

from controlplane.rollouts.change_plan.contract_replay import ContractImpact, replay_contract
from controlplane.slo.promised import Promise, promises_of
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.enforced import contract_policy
from controlplane.store.contract_terms import FindTerms
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.recorded_outcomes import TermsByClass, read_replayed
from controlplane.store.revision import Revision

HOUR_NS = 3600 * 10**9


def replay_contracts(
    before: DesiredDeployment | None,
    after: DesiredDeployment,
    find_terms: FindTerms,
    request_db: Database,
    now_unix_ns: int,
    limit: int,
) -> ContractImpact | None:
    """None: the contract stays as it is, or the deployment is new."""
    if before is None:
        return None
    old, new = before.revisions.contract, after.revisions.contract
    if (old and old.id) == (new and new.id):
        return None
    with request_db.reading() as session:
        traffic = read_replayed(
            session,
            after.name,
            (_terms(old), _terms(new)),
            find_terms,
            now_unix_ns - HOUR_NS,
            now_unix_ns,
            limit,
        )
    return replay_contract(_promises(after.name, old), _promises(after.name, new), traffic)


def _terms(contract: Revision | None) -> TermsByClass:
    if contract is None:
        return {}
    return contract_policy(contract.label, contract.spec(SLOContractSpec)).terms_by_class


def _promises(deployment: str, contract: Revision | None) -> list[Promise]:
    if contract is None:
        return []
    return list(promises_of(deployment, contract.label, contract.spec(SLOContractSpec)))
