"""The fleet of a trial: simulated, and seen from outside."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.specs.scenario_compiling import ScenarioDocument, read_scenario
from controlplane.specs.yaml_reader import read_yaml
from dataplane.simulation.faults.fleet_faults import FleetFaults
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import NoRecords
from dataplane.simulation.observer.dialects import get_dialect
from dataplane.simulation.observer.fleet_exporters import FleetExporters
from dataplane.simulation.observer.gateway_counts import GatewayCounts
from dataplane.simulation.observer.lines import Seen
from ops.diagnosis.trials import EVERY_SECONDS, LAST_SECONDS, WINDOW_SECONDS, Trial

_REPLICAS: Mapping[str, Any] = {
    "count": 3,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 512,
    "max_model_len": 4096,
    "num_blocks": 256,
    "cost": {"iteration": "20ms", "per_prompt_token": "100us", "per_decode_step": "1ms"},
    "cold_start": {"acquire": "1s", "load": "4s", "compile": "3s", "warm_up": "2s"},
}


def document_of(trial: Trial, level: int, seed: int) -> dict[str, Any]:
    """As it would stand in a file."""
    changes = dict(trial.changes)
    replicas = {**_REPLICAS, **changes.pop("replicas", {})}
    arrivals = {
        "name": "chat",
        "poisson": f"{trial.rate:g}/s",
        "tenants": {"acme": 1, "globex": 2},
        "clients": {"people": 1},
        "prompt": changes.pop("prompt", {"median": 120, "sigma": 0.5, "at_most": 600}),
        "output": {"median": 40, "sigma": 0.5, "at_most": 200},
        "prefixes": {"count": 2, "length": {"constant": 64}},
    }
    return {
        "apiVersion": "pilothouse/v1",
        "kind": "Scenario",
        "metadata": {"name": trial.name.replace("_", "-")},
        "spec": {
            "seed": seed,
            "duration": f"{_duration(trial):g}s",
            "replicas": replicas,
            "policy": changes.pop("policy", {"classes": [{"name": "chat"}]}),
            "tenants": {"acme": {}, "globex": {}},
            "clients": {"people": {"first_token_within": "20s"}},
            "arrivals": [arrivals],
            "faults": [dict(fault) for fault in trial.levels[level]],
            **changes,
        },
    }


def _duration(trial: Trial) -> float:
    return max(trial.onset + LAST_SECONDS, WINDOW_SECONDS) + 2.0


def observe(trial: Trial, level: int, seed: int, dialect: str) -> list[Seen]:
    """All that can be seen of it from outside, in time order."""
    document = compile_trial(trial, level, seed)
    fleet = Fleet(document.fleet, NoRecords(), keeps_rows=False)
    seen: list[Seen] = []
    plan = FaultPlan(document.faults)
    exporters = FleetExporters(
        fleet, lambda replica_id: get_dialect(dialect), seen.append, plan.metrics
    )
    faults = FleetFaults(plan, fleet)
    faults.on_out_of_memory.append(exporters.ran_out_of_memory)
    faults.on_leak.append(exporters.leaked)
    exporters.observe(EVERY_SECONDS, document.spec.duration)
    GatewayCounts(fleet, seen.append, EVERY_SECONDS, document.spec.duration).start()
    fleet.run_until(document.spec.duration)
    return seen


def compile_trial(trial: Trial, level: int, seed: int) -> ScenarioDocument:
    """JSON is YAML, so a document that was put together is read like one from a file. Raises
    ValueError with every mistake in it."""
    [source], problems = read_yaml(trial.name, json.dumps(document_of(trial, level, seed)))
    document, more = read_scenario(source, Path())
    if document is None:
        raise ValueError("; ".join(str(problem) for problem in (*problems, *more)))
    return document
