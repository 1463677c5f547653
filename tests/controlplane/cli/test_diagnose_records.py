"""`pilothouse diagnose` of records that `pilothouse simulate --records` wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode

ONE_REPLICA = {
    "count": 1,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 1024,
    "max_model_len": 2048,
    "num_blocks": 4096,
    "cost": {"iteration": "20ms", "per_prompt_token": "20us", "per_decode_step": "200us"},
}
"""Some seven answers a second: 16 seats, and an answer of 100 tokens takes 2.4 s."""


def scenario(per_second: float, max_queue: int = 4096, seconds: int = 60) -> dict[str, Any]:
    return {
        "apiVersion": "pilothouse/v1",
        "kind": "Scenario",
        "metadata": {"name": "chat"},
        "spec": {
            "seed": 3,
            "duration": f"{seconds}s",
            "starts_at": "2026-11-01T00:00:00Z",
            "replicas": ONE_REPLICA,
            "policy": {"classes": [{"name": "all", "max_queue": max_queue}]},
            "tenants": {"acme": {}},
            "arrivals": [
                {
                    "name": "chat",
                    "poisson": f"{per_second}/s",
                    "tenants": {"acme": 1},
                    "prompt": {"constant": 100},
                    "output": {"constant": 100},
                }
            ],
        },
    }


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [*arguments], input=stdin)


def records(folder: Path, document: dict[str, Any]) -> str:
    file, written = folder / "scenario.yaml", folder / "records.jsonl"
    file.write_text(json.dumps(document))
    result = run("simulate", str(file), "--records", str(written))
    assert result.exit_code == 0, result.output
    return str(written)


def diagnosed(*arguments: str, stdin: bytes | None = None) -> dict[str, Any]:
    result = run("diagnose", *arguments, "-o", "json", stdin=stdin)
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_a_simulated_overload_is_named_from_its_records_alone(tmp_path: Path) -> None:
    name = records(tmp_path, scenario(12))
    answer = diagnosed(name)
    assert (answer["mechanism"], answer["confidence"]) == ("queue.overload", "likely")
    values = {value["name"]: value for value in answer["findings"][0]["values"]}
    waiting = values["requests waiting for engine work"]
    assert waiting["unit"] == "requests"
    assert waiting["source"] == "records"
    assert waiting["age_seconds"] > 0
    assert diagnosed("-", stdin=Path(name).read_bytes())["mechanism"] == "queue.overload"


def test_a_simulated_run_that_keeps_up_is_healthy(tmp_path: Path) -> None:
    answer = diagnosed(records(tmp_path, scenario(4)))
    assert (answer["mechanism"], answer["confidence"]) == ("healthy", "likely")


def test_a_queue_that_is_full_is_a_policy_that_rejects_or_an_overload(tmp_path: Path) -> None:
    answer = diagnosed(records(tmp_path, scenario(14, max_queue=8)))
    found = {each["mechanism"] for each in answer["findings"]}
    assert found & {"policy.rejecting", "queue.overload"}
    assert "healthy" not in found


def test_a_broken_line_ends_the_command_with_its_place(tmp_path: Path) -> None:
    name = Path(records(tmp_path, scenario(4, seconds=3)))
    first, *others = name.read_bytes().splitlines(keepends=True)
    name.write_bytes(first + others[0][:200] + b"\n" + b"".join(others[1:]))
    result = run("diagnose", str(name))
    assert result.exit_code == ExitCode.USAGE
    assert f"{name}, line 2" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("http://127.0.0.1:9", "--deployment", "chat"), "--deployment belongs to FILEs"),
        (("records.jsonl", "--deployment", "code"), "holds no request of code"),
    ],
)
def test_a_deployment_is_chosen_among_records_alone(
    arguments: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    name = records(tmp_path, scenario(4, seconds=3))
    result = run("diagnose", *(name if each == "records.jsonl" else each for each in arguments))
    assert result.exit_code == ExitCode.USAGE
    assert told in result.stderr
