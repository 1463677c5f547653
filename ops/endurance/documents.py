"""What runs: one deployment of two replicas, with classes that wait, expire and overflow."""

from pathlib import Path

MODEL = "tiny"
DEPLOYMENT = "endurance"
TENANTS = ("default", "batch", "hurried")

# The pool is smaller than what 16 full sequences need, so that some are preempted.
_DOCUMENTS = """
apiVersion: pilothouse/v1
kind: Model
metadata: {{name: {model}}}
spec: {{artifact: {{path: "{artifact}"}}}}
---
apiVersion: pilothouse/v1
kind: EngineConfig
metadata: {{name: paged}}
spec:
  engine: paged
  settings: {{max_num_seqs: 16, kv_memory: 768KiB, num_threads: 1, device: cpu}}
---
apiVersion: pilothouse/v1
kind: AdmissionPolicy
metadata: {{name: endurance}}
spec:
  classes:
    - name: hurried
      match: 'tenant.tier == "hurried"'
      priority: 1
      max_queue: 64
      deadline: 60ms
    - {{name: batch, match: 'tenant.tier == "batch"', priority: 10, max_queue: 12}}
    - {{name: interactive, priority: 100, max_queue: 64, deadline: 30s}}
---
apiVersion: pilothouse/v1
kind: SLOContract
metadata: {{name: endurance}}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives:
        - {{signal: ttft, at_most: 300ms, for: 99%}}
        - {{signal: tpot, at_most: 40ms, for: 95%}}
        - {{signal: availability, for: 99.9%}}
---
apiVersion: pilothouse/v1
kind: Tenant
metadata: {{name: default}}
spec: {{tier: standard}}
---
apiVersion: pilothouse/v1
kind: Tenant
metadata: {{name: batch}}
spec: {{tier: batch}}
---
apiVersion: pilothouse/v1
kind: Tenant
metadata: {{name: hurried}}
spec: {{tier: hurried}}
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {{name: {deployment}}}
spec:
  model: {model}
  engine: paged
  contract: endurance
  policy: endurance
  replicas: {num_replicas}
"""


def write_documents(folder: Path, artifact: Path, num_replicas: int) -> Path:
    """The folder for `pilothouse serve --config`."""
    folder.mkdir()
    text = _DOCUMENTS.format(
        model=MODEL, artifact=artifact, deployment=DEPLOYMENT, num_replicas=num_replicas
    )
    (folder / "endurance.yaml").write_text(text)
    return folder
