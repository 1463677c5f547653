"""`pilothouse simulate` with a cost that was fitted: overheads and starts are in what comes out."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.cli import main
from dataplane.lifecycle import EventKind, find_event
from dataplane.record import decode_record
from dataplane.simulation.fitting.document import Noise, Overheads, Spread, load_fit, save_fit
from tests.dataplane.simulation.fitting.known_fit import known_fit

_NOISE = Noise(
    shares=(0.0, 1.0), decode_factors=(0.9, 1.1), prompt_factors=(0.9, 1.1), correlation=0.0
)
_FIT = known_fit(
    seconds=0.01,
    noise=_NOISE,
    overheads=Overheads(
        arrival_to_admission=Spread(median=0.02, p95=0.05, num_samples=20),
        selection_to_first_write=Spread(median=0.03, p95=0.04, num_samples=20),
    ),
    cold_start={"load": Spread(median=4.0, p95=4.0, num_samples=2)},
)


def scenario(folder: Path, cost: dict[str, Any], **gateways: Any) -> Path:
    """One cold replica, and a call a second of one step's prompt and three tokens."""
    save_fit(_FIT, folder / "chat.fit.json")
    document = {
        "apiVersion": "pilothouse/v1",
        "kind": "Scenario",
        "metadata": {"name": "fitted"},
        "spec": {
            "seed": 3,
            "duration": "30s",
            "gateways": {"unserved": "10s", **gateways},
            "replicas": {
                "count": 1,
                "max_num_seqs": 8,
                "max_num_batched_tokens": 256,
                "max_model_len": 512,
                "num_blocks": 256,
                "cost": {"fit": "chat.fit.json", **cost},
                "start_cold": 1,
            },
            "policy": {"classes": [{"name": "all", "max_queue": 100}]},
            "arrivals": [
                {
                    "name": "calls",
                    "every": "1s",
                    "prompt": {"constant": 100},
                    "output": {"constant": 3},
                }
            ],
        },
    }
    path = folder / "fitted.yaml"
    path.write_text(json.dumps(document))
    return path


def run(path: Path) -> tuple[dict[EventKind, list[float]], bytes]:
    """Times of events by kind, of all requests in order of arrival; and the records' bytes."""
    out = path.with_suffix(".jsonl")
    result = CliRunner().invoke(main, ["simulate", str(path), "--records", str(out)])
    assert result.exit_code == 0, result.output
    data = out.read_bytes()
    records = [decode_record(line) for line in data.splitlines()]
    records.sort(key=lambda record: record.arrived_at_unix_ns)
    at: dict[EventKind, list[float]] = {}
    for record in records:
        for kind in (EventKind.ADMITTED, EventKind.FIRST_TOKEN, EventKind.FIRST_WRITE):
            event = find_event(record.events, kind)
            assert event is not None
            at.setdefault(kind, []).append(event.at)
    return at, data


def test_the_fitted_overhead_is_in_the_time_to_first_token(tmp_path: Path) -> None:
    at, _ = run(scenario(tmp_path, {"noise": "off"}))
    assert at[EventKind.ADMITTED] == pytest.approx([0.02] * len(at[EventKind.ADMITTED]))
    warm = at[EventKind.FIRST_WRITE][10:]
    assert warm == pytest.approx([0.02 + 0.01 + 0.03] * len(warm))


def test_a_cold_replica_takes_the_fitted_time_to_start(tmp_path: Path) -> None:
    at, _ = run(scenario(tmp_path, {"noise": "off"}))
    assert at[EventKind.FIRST_TOKEN][0] == pytest.approx(4.0 + 0.01)


def test_noise_spreads_the_overhead_and_the_same_seed_gives_the_same_bytes(
    tmp_path: Path,
) -> None:
    path = scenario(tmp_path, {})
    at, data = run(path)
    assert run(path)[1] == data
    assert min(at[EventKind.ADMITTED]) == pytest.approx(0.02)
    assert 0.025 < max(at[EventKind.ADMITTED]) < 0.08


def test_a_scenario_may_leave_the_fitted_overhead_out(tmp_path: Path) -> None:
    at, _ = run(scenario(tmp_path, {"noise": "off"}, overheads={}))
    assert at[EventKind.ADMITTED] == [0.0] * len(at[EventKind.ADMITTED])
    warm = at[EventKind.FIRST_WRITE][10:]
    assert warm == pytest.approx([0.01] * len(warm))


def test_the_overheads_are_found_again_in_the_records_of_the_simulation(tmp_path: Path) -> None:
    path = scenario(tmp_path, {})
    run(path)
    found = tmp_path / "again.fit.json"
    result = CliRunner().invoke(main, ["fit", str(path.with_suffix(".jsonl")), "--out", str(found)])
    assert result.exit_code == 0, result.output
    overheads = load_fit(found).overheads
    assert overheads.arrival_to_admission is not None
    assert overheads.arrival_to_admission.median == pytest.approx(0.02, rel=0.1)
    assert overheads.selection_to_first_write is not None
    assert overheads.selection_to_first_write.median == pytest.approx(0.03, rel=0.1)
