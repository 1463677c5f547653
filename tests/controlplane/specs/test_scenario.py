import copy
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from controlplane.specs.documents import load_documents
from controlplane.specs.scenario_compiling import ScenarioDocument, read_scenario
from controlplane.specs.yaml_reader import read_yaml
from dataplane.simulation.clients import PATIENT
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.distributions import Constant, LogNormal
from dataplane.simulation.phase_split import PhaseSplit

EXAMPLE = Path(__file__).parents[3] / "ops/examples/simulate/fleet.yaml"
YAML_SAFE = YAML(typ="safe")


def as_text(document: dict[str, Any]) -> str:
    import json

    return json.dumps(document)


def example() -> dict[str, Any]:
    document: dict[str, Any] = YAML_SAFE.load(EXAMPLE)
    return document


def read(text: str, folder: Path) -> tuple[ScenarioDocument | None, list[str]]:
    [source], unreadable = read_yaml("s.yaml", text)
    assert not unreadable
    document, problems = read_scenario(source, folder)
    return document, [str(problem) for problem in problems]


def problems_of(change: Any, folder: Path = Path()) -> list[str]:
    document = example()
    change(document["spec"])
    read_document, problems = read(as_text(document), folder)
    assert read_document is None
    return problems


def test_the_example_says_what_is_simulated() -> None:
    document, problems = read(EXAMPLE.read_text(), EXAMPLE.parent)
    assert not problems
    assert document is not None
    fleet = document.fleet
    assert fleet.name == "evening"
    assert fleet.duration == 180
    assert [replica.starts_at for replica in fleet.replicas] == [None, None, None, 0.0]
    assert fleet.replicas[0].cost == LinearCost(
        iteration=0.008, per_prompt_token=4e-5, per_decode_step=2e-4
    )
    assert fleet.replicas[3].cold_start.ready_after == 26
    assert [each.name for each in fleet.policy.classes] == ["interactive", "batch"]
    assert fleet.contract is not None
    assert set(fleet.contract.terms_by_class) == {"interactive"}
    chat = fleet.traffic[0]
    assert chat.prompt == LogNormal(median=300, sigma=0.8, most=4000)
    assert [(c.client.name, weight) for c, weight in chat.callers] == [("hasty", 4), ("slow", 1)]
    assert fleet.traffic[1].callers[0][0].client is PATIENT


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda s: s["arrivals"][0].pop("poisson"), "exactly one of poisson, bursts, every"),
        (lambda s: s["arrivals"][0].update(every="1s"), "not poisson and every"),
        (lambda s: s["arrivals"][0]["prompt"].pop("sigma"), "median and sigma belong together"),
        (lambda s: s["arrivals"][0].pop("output"), "needs output"),
        (lambda s: s["arrivals"][0].update(clients={"rude": 1}), "rude, which is none of clients"),
        (lambda s: s["arrivals"][0].update(tenants={"nobody": 1}), "nobody, which is none of"),
        (lambda s: s["arrivals"][1].update(name="chat"), "arrivals named twice: chat"),
        (lambda s: s["replicas"].update(start_cold=9), "start_cold is 9, of 4 replicas"),
        (lambda s: s["replicas"].update(max_num_batched_tokens=8), "decodes one token a step"),
        (lambda s: s["replicas"]["cost"].update(fit="a.json"), "leave out iteration"),
        (lambda s: s["replicas"].update(cost={"fit": "none.json"}), "No such file"),
        (lambda s: s["contract"].update(boundary="client"), "use server"),
        (lambda s: s.update(starts_at="yesterday"), "write it as 2026-01-01T00:00:00Z"),
        (lambda s: s.update(duratoin="1s"), "did you mean duration?"),
        (lambda s: s.update(duration=300), "300 is not a duration"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(change: Any, what: str) -> None:
    problems = problems_of(change)
    assert any(what in problem for problem in problems), problems
    assert all(problem.startswith("s.yaml:1:") for problem in problems)


def test_a_replay_is_read_from_the_scenarios_folder(tmp_path: Path) -> None:
    document = example()
    document["spec"]["arrivals"] = [{"name": "again", "replay": {"file": "t.jsonl", "speed": 2}}]
    missing, problems = read(as_text(document), tmp_path)
    assert missing is None
    assert "spec.arrivals[0].replay.file: cannot be read: No such file" in problems[0]
    (tmp_path / "t.jsonl").write_text('{"at": 3, "prompt_tokens": 5, "output_tokens": 2}\n{"at"')
    broken, problems = read(as_text(document), tmp_path)
    assert broken is None
    assert "t.jsonl:2: " in problems[0]
    (tmp_path / "t.jsonl").write_text('{"at": 3, "prompt_tokens": 5, "output_tokens": 2}\n')
    found, problems = read(as_text(document), tmp_path)
    assert not problems
    assert found is not None
    assert found.fleet.replays[0].speed == 2
    assert len(found.fleet.replays[0].entries) == 1


def test_apply_says_where_a_scenario_belongs() -> None:
    result = load_documents([("s.yaml", EXAMPLE.read_text())])
    assert not result.documents
    [problem] = result.problems
    assert "pilothouse simulate FILE" in problem.message
    assert problem.key == "kind"


PHASES = {
    "prefill": 1,
    "decode": 3,
    "transfer": {"gigabits_per_second": 25, "bytes_per_token": 131072},
}


def test_replicas_may_have_a_phase_each() -> None:
    document = example()
    document["spec"]["replicas"]["phases"] = PHASES
    found, problems = read(as_text(document), Path())
    assert not problems
    assert found is not None
    plan = found.fleet.phases
    assert plan is not None
    assert plan.split == PhaseSplit(prefill=1, decode=3)
    assert (plan.bits_per_second, plan.bytes_per_token) == (25e9, 131072)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda s: s["replicas"].update(phases={**PHASES, "decode": 2}), "write count: 3"),
        (lambda s: s["replicas"].update(phases={**PHASES, "prefill": 0}), "phases.prefill"),
        (lambda s: s["replicas"].update(phases={"prefill": 1, "decode": 3}), "phases.transfer"),
        (lambda s: s.update(faults=[{"fault": "wrong_phase_split"}]), "add replicas.phases"),
        (lambda s: s.update(faults=[{"fault": "transfer_limit"}]), "or replicas.phases"),
    ],
)
def test_a_mistake_about_phases_is_named(change: Any, what: str) -> None:
    assert any(what in problem for problem in problems_of(change))


def test_a_scenario_does_not_depend_on_what_was_read_before() -> None:
    first, _ = read(EXAMPLE.read_text(), EXAMPLE.parent)
    second, _ = read(as_text(copy.deepcopy(example())), EXAMPLE.parent)
    assert first is not None
    assert second is not None
    assert first.fleet == second.fleet


def ask_for(num_sequences: Any, **replicas: Any) -> Any:
    """A change of a scenario: the first kind of traffic asks for several answers."""

    def change(spec: dict[str, Any]) -> None:
        spec["arrivals"][0]["num_sequences"] = num_sequences
        spec["replicas"].update(replicas)

    return change


@pytest.mark.parametrize("replicas", [{}, {"phases": PHASES, "count": 4, "start_cold": 0}])
def test_traffic_may_ask_for_several_answers(replicas: dict[str, Any]) -> None:
    document = example()
    ask_for({"constant": 3}, **replicas)(document["spec"])
    found, problems = read(as_text(document), Path())
    assert not problems
    assert found is not None
    assert found.fleet.traffic[0].num_sequences == Constant(3)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (ask_for({"constant": 0}), "num_sequences"),
        (ask_for({"constant": 3}, prefix_caching=False), "set replicas.prefix_caching to true"),
    ],
)
def test_a_mistake_about_several_answers_is_named(change: Any, what: str) -> None:
    assert any(what in problem for problem in problems_of(change))
