"""The contract of the demo, of which rules and dashboards that ship are made."""

from controlplane.bundled import Bundled, locate
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.documents import load_documents


def demo_contract() -> tuple[str, SLOContractSpec]:
    """As its first revision: `chat@1`, and what it says."""
    path = locate(Bundled.DEMO) / "contract.yaml"
    [document] = load_documents([(path.name, path.read_text(encoding="utf-8"))]).documents
    if not isinstance(document.spec, SLOContractSpec):
        raise TypeError(f"{path} holds a {document.kind} and no SLOContract")
    return f"{document.name}@1", document.spec
