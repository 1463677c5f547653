"""What runs while requests are cancelled: a policy with everything switched on, two replicas of
the native engine behind it, and a simulated one that stands in for them."""

from pathlib import Path

from ops.endurance.cancel_plan import TENANTS
from ops.endurance.documents import DEPLOYMENT, MODEL

NUM_REPLICAS = 2
FALLBACK = "spare"

_DOCUMENTS = """
apiVersion: pilothouse/v1
kind: Model
metadata: {{name: {model}}}
spec: {{artifact: {{path: "{artifact}"}}}}
---
apiVersion: pilothouse/v1
kind: Model
metadata: {{name: bytes}}
spec: {{artifact: {{package: pilothouse_simulator, file: bytes.gguf}}, max_model_len: 512}}
---
apiVersion: pilothouse/v1
kind: EngineConfig
metadata: {{name: paged}}
spec:
  engine: paged
  settings: {{max_num_seqs: 16, kv_memory: 768KiB, num_threads: 1, device: cpu}}
---
apiVersion: pilothouse/v1
kind: EngineConfig
metadata: {{name: simulated}}
spec:
  engine: simulator
  settings:
    max_num_seqs: 8
    num_blocks: 256
    cost_model_ms: {{iteration: 4.0, per_prompt_token: 0.2, per_decode_step: 0.1}}
    output_tokens: {{median: 30.0, sigma: 0.7}}
---
apiVersion: pilothouse/v1
kind: AdmissionPolicy
metadata: {{name: cancels}}
spec:
  classes:
    - name: hurried
      match: 'tenant.tier == "hurried"'
      priority: 1
      max_queue: 64
      deadline: 60ms
    - {{name: batch, match: 'tenant.tier == "batch"', priority: 10, aging: 5/s, max_queue: 12}}
    - {{name: interactive, priority: 100, max_queue: 40, deadline: 10s}}
  limits:
    max_active_per_replica: 4
    max_prompt_tokens_in_flight: 6000
    queue: {{requests: 36, tokens: 9000, bytes: 64KiB, age: 5s}}
    kv: {{reserve: expected, quantile: 0.9, watermark: 5%}}
  tenants:
    default: {{weight: 1, tokens_per_minute: 5000000, max_concurrent: 40}}
    heavy: {{weight: 4}}
    small: {{tokens_per_minute: 6000, max_concurrent: 3}}
    batch: {{weight: 2, max_concurrent: 16}}
  overload:
    shed: [batch, hurried]
    degrade: {{when: queue_age > 400ms, max_tokens: 48, fallback: {fallback}}}
    retry_budget: 5%
  routing: {{policy: prefix, affinity_header: x-session-id}}
---
apiVersion: pilothouse/v1
kind: AdmissionPolicy
metadata: {{name: spare}}
spec:
  classes: [{{name: all, max_queue: 8, deadline: 2s}}]
  limits:
    max_active_per_replica: 4
    max_prompt_tokens_in_flight: 2000
    kv: {{reserve: full}}
  tenants: {{default: {{max_concurrent: 6}}}}
---
apiVersion: pilothouse/v1
kind: SLOContract
metadata: {{name: endurance}}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives: [{{signal: ttft, at_most: 300ms, for: 99%}}]
---
apiVersion: pilothouse/v1
kind: SLOContract
metadata: {{name: spare}}
spec:
  boundary: server
  window: 30d
  classes:
    all:
      objectives: [{{signal: ttft, at_most: 300ms, for: 99%}}]
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {{name: {deployment}}}
spec: {{model: {model}, engine: paged, contract: endurance, policy: cancels, replicas: {replicas}}}
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {{name: {fallback}}}
spec: {{model: bytes, engine: simulated, contract: spare, policy: spare, replicas: 1}}
"""
_TENANT = """---
apiVersion: pilothouse/v1
kind: Tenant
metadata: {{name: {name}}}
spec: {{tier: {name}}}
"""


def write_cancel_documents(folder: Path, artifact: Path) -> Path:
    """The folder for `pilothouse serve --config`."""
    folder.mkdir()
    text = _DOCUMENTS.format(
        model=MODEL,
        artifact=artifact,
        deployment=DEPLOYMENT,
        fallback=FALLBACK,
        replicas=NUM_REPLICAS,
    )
    (folder / "cancels.yaml").write_text(text + "".join(_TENANT.format(name=t) for t in TENANTS))
    return folder
