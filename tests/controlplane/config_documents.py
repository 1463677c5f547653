"""Documents that many tests start from."""

from collections.abc import Sequence
from pathlib import Path

from controlplane.specs.documents import Document, LoadResult, load_documents
from controlplane.specs.kind import Kind, SpecModel
from controlplane.specs.names import Reference
from controlplane.store.database import Database, DatabaseKind
from tests.databases import open_sqlite

DESIGN_CONTRACT = """\
kind: SLOContract
metadata: {name: chat}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives:
        - {signal: ttft, at_most: 300ms, for: 99%}
        - {signal: tpot, at_most: 40ms, for: 95%}
        - {signal: availability, for: 99.9%}
      together: {of: [ttft, tpot], for: 95%}
"""

# One line is as long as the design has it.
DESIGN_POLICY = """\
kind: AdmissionPolicy
metadata: {name: chat}
spec:
  classes:
    - {name: interactive, match: 'tenant.tier == "gold"', priority: 100, max_queue: 64, deadline: 10s}
    - {name: batch, priority: 10, aging: 1/s, max_queue: 512}
  limits: {max_active_per_replica: 32, kv: {reserve: expected, quantile: 0.9, watermark: 5%}}
  tenants: {default: {weight: 1, tokens_per_minute: 200000}}
  overload: {shed: [batch], degrade: {when: queue_age > 1s, max_tokens: 256}, retry_budget: 10%}
"""  # noqa: E501

MODEL = """\
kind: Model
metadata: {name: smollm2}
spec:
  artifact: {path: /models/smollm2.gguf}
"""

ENGINE = """\
kind: EngineConfig
metadata: {name: attached}
spec: {engine: openai, settings: {model: smollm2}}
"""

DEPLOYMENT = """\
kind: Deployment
metadata: {name: chat}
spec: {model: smollm2, engine: attached, policy: chat, contract: chat, replicas: 2}
"""

SERVICE = (MODEL, ENGINE, DESIGN_CONTRACT, DESIGN_POLICY, DEPLOYMENT)
"""Everything that one deployment needs."""


def load(*texts: str) -> LoadResult:
    """Load texts, each as a file f0.yaml, f1.yaml and so on, with nothing applied before."""
    return load_documents([(f"f{i}.yaml", text) for i, text in enumerate(texts)], NothingApplied())


def documents(*texts: str) -> Sequence[Document]:
    """Documents known to be fine by themselves; names are left to the store."""
    result = load_documents([(f"f{i}.yaml", text) for i, text in enumerate(texts)])
    assert not result.problems, "\n".join(map(str, result.problems))
    return result.documents


def messages(*texts: str) -> list[str]:
    """The problems of texts, each as it is printed."""
    return [str(problem) for problem in load(*texts).problems]


def config_database(folder: Path) -> Database:
    """A fresh config database."""
    return open_sqlite(folder / "config.db", DatabaseKind.CONFIG)


class NothingApplied:
    """A catalog of a control plane that was just started."""

    def names(self, kind: Kind) -> Sequence[str]:
        return ()

    def numbers(self, kind: Kind, name: str) -> Sequence[int]:
        return ()

    def find_spec(self, kind: Kind, reference: Reference) -> SpecModel | None:
        return None
