"""What is promised now, by the deployments that are desired."""

from collections.abc import Iterable, Iterator

from controlplane.slo.promised import Promise, promises_of
from controlplane.specs.contract import SLOContractSpec
from controlplane.store.deployments import DesiredDeployment


def promises_now(desired: Iterable[DesiredDeployment]) -> Iterator[Promise]:
    """In their order; none of a deployment without a contract."""
    for each in desired:
        contract = each.revisions.contract
        if contract is not None:
            yield from promises_of(each.name, contract.label, contract.spec(SLOContractSpec))
