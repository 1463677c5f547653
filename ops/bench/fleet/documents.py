"""The documents of a large fleet: each deployment with a model and a policy of its own."""

from pathlib import Path

from ops.bench.fleet.idle_launcher import NAME

_NUM_SHARED = 20
"""Contracts and engine configs, each of which many deployments have."""
_MAX_DOCUMENTS = 150
"""In one file."""

_CONTRACT = """\
kind: SLOContract
metadata: {{name: contract-{number}}}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives:
        - {{signal: ttft, at_most: {ttft}ms, for: 99%}}
        - {{signal: tpot, at_most: 40ms, for: 95%}}
        - {{signal: availability, for: 99.9%}}
    batch:
      objectives:
        - {{signal: availability, for: 99%}}
"""
_ENGINE = """\
kind: EngineConfig
metadata: {{name: engine-{number}}}
spec: {{engine: {engine}, settings: {{max_num_seqs: {seqs}}}}}
"""
_MODEL = """\
kind: Model
metadata: {{name: model-{number:04}}}
spec: {{artifact: {{path: {path}}}, max_model_len: {length}}}
"""
_POLICY = """\
kind: AdmissionPolicy
metadata: {{name: policy-{number:04}}}
spec:
  classes:
    - {{name: interactive, match: 'tenant.tier == "gold"', priority: 100, max_queue: {queue}, deadline: 10s}}
    - {{name: batch, priority: 10, aging: 1/s, max_queue: 512}}
  limits: {{max_active_per_replica: 32, kv: {{reserve: expected, quantile: 0.9, watermark: 5%}}}}
  tenants: {{default: {{weight: 1, tokens_per_minute: 200000}}}}
  overload: {{shed: [batch], retry_budget: 10%}}
"""  # noqa: E501
_DEPLOYMENT = """\
kind: Deployment
metadata: {{name: service-{number:04}}}
spec:
  model: model-{number:04}
  engine: engine-{shared}
  policy: policy-{number:04}
  contract: contract-{shared}
  replicas: {replicas}
  launcher: {launcher}
  replacement: {{max_surge: 0, max_unavailable: {replicas}}}
"""


def policy(number: int, max_queue: int = 64) -> str:
    """Of one deployment."""
    return _POLICY.format(number=number, queue=max_queue)


def model(number: int, weights: Path, max_model_len: int = 4096) -> str:
    """Of one deployment."""
    return _MODEL.format(number=number, path=weights, length=max_model_len)


def engine(number: int, max_num_seqs: int = 32) -> str:
    """Of all deployments that share it."""
    return _ENGINE.format(number=number, engine=NAME, seqs=max_num_seqs)


def engines(max_num_seqs: int = 32) -> list[str]:
    """Of all deployments."""
    return [engine(number, max_num_seqs) for number in range(_NUM_SHARED)]


def fleet(num_deployments: int, num_replicas: int, weights: Path) -> list[str]:
    """All documents; `num_replicas` of each deployment."""
    contracts = [_CONTRACT.format(number=n, ttft=300 + n) for n in range(_NUM_SHARED)]
    own = [
        text
        for n in range(num_deployments)
        for text in (
            model(n, weights),
            policy(n),
            _DEPLOYMENT.format(
                number=n, shared=n % _NUM_SHARED, replicas=num_replicas, launcher=NAME
            ),
        )
    ]
    return [*contracts, *engines(), *own]


def files(texts: list[str]) -> list[dict[str, str]]:
    """As `POST /api/v1/apply` takes them."""
    parts = [texts[at : at + _MAX_DOCUMENTS] for at in range(0, len(texts), _MAX_DOCUMENTS)]
    return [{"name": f"f{n}.yaml", "text": "---\n".join(part)} for n, part in enumerate(parts)]
