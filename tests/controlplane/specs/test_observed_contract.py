"""What an engine that is only observed cannot be judged on is said when it is applied."""

from controlplane.specs.documents import LoadResult, parse_documents
from controlplane.specs.observed_contract import PagesByDeployment
from tests.controlplane.config_documents import DESIGN_POLICY, NothingApplied

MODEL = """\
kind: Model
metadata: {name: m}
spec: {artifact: {url: "http://127.0.0.1:9"}}
"""
ENGINE = """\
kind: EngineConfig
metadata: {name: e}
spec: {engine: vllm}
"""
DEPLOYMENT = """\
kind: Deployment
metadata: {name: seen}
spec: {model: m, engine: e, policy: chat, contract: seen, observe_only: true}
"""
CONTRACT = """\
kind: SLOContract
metadata: {name: seen}
spec:
  boundary: engine
  window: 30d
  classes:
    interactive:
      objectives:
        - {signal: ttft, at_most: 250ms, for: 99%}
"""
_PLACE = "spec.classes.interactive.objectives[0]"
E2E = CONTRACT.replace("ttft", "e2e")


def loaded(
    contract: str, deployment: str = DEPLOYMENT, pages: PagesByDeployment | None = None
) -> LoadResult:
    texts = [MODEL, ENGINE, DESIGN_POLICY, deployment, contract]
    parsed = parse_documents([(f"f{i}.yaml", text) for i, text in enumerate(texts)])
    result = parsed.against(NothingApplied(), pages)
    assert not [each for each in result.problems if each.file != "f4.yaml"]
    return result


def test_a_threshold_that_is_an_edge_is_taken_in_silence() -> None:
    result = loaded(CONTRACT)
    assert result.problems == result.warnings == ()


def test_one_that_is_judged_more_strictly_is_said_with_its_place() -> None:
    result = loaded(CONTRACT.replace("250ms", "300ms"))
    assert result.problems == ()
    [warning] = result.warnings
    assert warning.key == _PLACE
    assert "250ms" in warning.message


def test_one_that_nobody_can_count_is_refused_with_its_place() -> None:
    [problem] = loaded(E2E).problems  # vLLM's begin at 0.3 s
    assert problem.key == _PLACE
    assert "300ms" in problem.message


def test_one_whose_engine_was_seen_with_other_buckets_is_taken() -> None:
    pages = {"seen": {"vllm:e2e_request_latency_seconds": (0.1, 0.25, 1.0)}}
    result = loaded(E2E, pages=pages)
    assert result.problems == result.warnings == ()


def test_a_boundary_that_no_engine_sees_is_said() -> None:
    [warning] = loaded(CONTRACT.replace("boundary: engine", "boundary: server")).warnings
    assert "boundary: engine" in warning.message


def test_a_deployment_whose_requests_pass_through_is_judged_at_any_threshold() -> None:
    served = DEPLOYMENT.replace("observe_only: true", "observe_only: false")
    result = loaded(E2E.replace("250ms", "123ms"), served)
    assert result.problems == result.warnings == ()
