"""The documents of one deployment that is rolled, and what each change of it is."""

from dataclasses import dataclass, replace

from ops.chaos.cases import Candidate, Case, Changed

DEPLOYMENT = "rolled"
NUM_REPLICAS = 2

_MODEL = """
kind: Model
metadata: {{name: rolled}}
spec:
  artifact: {{package: pilothouse_simulator, file: bytes.gguf}}
  max_model_len: {max_model_len}
"""
_ENGINE = """
kind: EngineConfig
metadata: {{name: rolled}}
spec:
  engine: simulator
  settings:
    {pace}
    output_tokens: {{constant: {num_tokens}}}
    start_seconds: {{load: 0.6, warm_up: 0.1}}
"""
_POLICY = """
kind: AdmissionPolicy
metadata: {{name: rolled}}
spec:
  classes: [{{name: interactive, max_queue: {max_queue}{match}}}]
  limits: {{max_active_per_replica: 16}}
"""
_CONTRACT = """
kind: SLOContract
metadata: {name: rolled}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives: [{signal: ttft, at_most: 2s, for: 90%}]
"""
_TENANT = """
kind: Tenant
metadata: {name: default}
spec: {tier: standard}
"""
_DEPLOYMENT = """
kind: Deployment
metadata: {name: rolled}
spec:
  model: rolled
  engine: rolled
  policy: rolled
  contract: rolled
  replicas: 2
  replacement: {max_surge: 1, max_unavailable: 0}
  rollout:
    steps: [{share: 30%, for: 1s}, {share: 50%, for: 1s}]
    timeout: 60s
    on_timeout: abort
    analysis:
      min_requests: 30
      margins: {attainment: 30%, failures: 30%, cut: 30%, empty: 30%, answer_length: 60%, ttft: 90%, tpot: 90%}
"""  # noqa: E501
_NOBODY = ", match: 'tenant.tier == \"nobody\"'"
_FAST = "cost_model_ms: {iteration: %s, per_prompt_token: 0.01, per_decode_step: 0.1}"
_SLOW = "cost_model_ms: {iteration: %s, per_prompt_token: 0.01, per_decode_step: 0.1}"
_NO_SUCH_FIT = "fit: /nonexistent/fit.json"
MOST_TOKENS = 40
"""That callers ask for at most."""
# Their logarithms are alike, as the analysis sees them.
_FEWEST, _VARIETY = 16, 8


@dataclass(frozen=True, slots=True)
class Service:
    """What the deployment is: a number for each kind of document says which of its versions."""

    policy: int = 0
    engine: int = 0
    model: int = 0
    candidate: Candidate = Candidate.GOOD
    """Of the last that was changed."""
    changed: Changed = Changed.POLICY

    def moved(self, case: Case, number: int) -> "Service":
        """To what a case rolls out; `number` is of no case before."""
        return replace(
            self, **{case.changed.value: number}, candidate=case.candidate, changed=case.changed
        )

    def documents(self) -> str:
        """All of them."""
        return "---".join(
            f"\napiVersion: pilothouse/v1{each}"
            for each in (
                _MODEL.format(max_model_len=2000 + self.model),
                self._engine(),
                self._policy(),
                _CONTRACT,
                _TENANT,
                _DEPLOYMENT,
            )
        )

    def _engine(self) -> str:
        kind = self.candidate if self.changed is Changed.ENGINE else Candidate.GOOD
        num_tokens = {
            Candidate.SHORT: 3,
            Candidate.EMPTY: 1,
            Candidate.CUT: 10 * MOST_TOKENS,
        }.get(kind, _FEWEST + self.engine % _VARIETY)
        # No two are the same document, and none is felt to be slower.
        fast, slow = _FAST % (3 + self.engine / 1e6), _SLOW % (40 + self.engine / 1e6)
        pace = {Candidate.SLOW: slow, Candidate.UNLOADABLE: _NO_SUCH_FIT}.get(kind, fast)
        # Of a prompt and its answer nothing fits: every call is refused by its length.
        if kind is Candidate.REFUSING:
            pace = f"{fast}\n    max_model_len: 16"
        return _ENGINE.format(pace=pace, num_tokens=num_tokens)

    def _policy(self) -> str:
        is_closed = self.changed is Changed.POLICY and self.candidate is Candidate.REFUSING
        return _POLICY.format(max_queue=256 + self.policy, match=_NOBODY if is_closed else "")
