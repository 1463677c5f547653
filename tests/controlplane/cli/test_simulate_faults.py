"""`pilothouse simulate` of scenarios with faults: every example, and what is seen of it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.metrics_options import DIALECTS
from dataplane.simulation.observer import dialects
from tests.controlplane.cli.seen_files import SeenFiles

EXAMPLES = Path(__file__).parents[3] / "ops/examples/simulate/faults"
FIRST, SECOND, THIRD = "replica-0", "replica-1", "replica-2"
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
USAGE, PREEMPTIONS = "vllm:kv_cache_usage_perc", "vllm:num_preemptions_total"
TOKENS, PROMPTS = "vllm:generation_tokens_total", "vllm:prompt_tokens_total"
HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
ITL = "vllm:inter_token_latency_seconds"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


def look_at(file: Path, folder: Path, dialect: str = "vllm") -> SeenFiles:
    result = simulate(
        str(file), "--metrics", str(folder), "--dialect", dialect, "--every", "5s", "--histograms"
    )
    assert result.exit_code == 0, result.output
    return SeenFiles(folder)


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> SeenFiles:
    """The same traffic, and nothing wrong."""
    folder = tmp_path_factory.mktemp("well")
    text = (EXAMPLES / "stale-metrics.yaml").read_text().replace("duration: 60s", "duration: 100s")
    (folder / "well.yaml").write_text(re.sub(r"  faults:\n(    - .*\n)+", "", text))
    return look_at(folder / "well.yaml", folder / "seen")


def gap(seen: SeenFiles, target: str, start: float = 25, end: float = 60) -> float:
    total = seen.growth(target, start, end, f"{ITL}_sum")
    return total / seen.growth(target, start, end, f"{ITL}_count")


def slow_gaps(seen: SeenFiles) -> float:
    """Gaps between tokens of more than 50 ms."""
    within = f'{ITL}_bucket{{engine="0",model_name="m",le="0.05"}}'
    return seen.total(25, 60, f"{ITL}_count") - seen.total(25, 60, within)


def sum_of(seen: SeenFiles, at: float, name: str) -> float:
    return sum(seen.value(target, at, name) for target in seen.targets)


def usage(seen: SeenFiles, target: str) -> list[float]:
    return [seen.value(target, at, USAGE) for at in range(5, 61, 5)]


SEEN: dict[str, Callable[[SeenFiles, SeenFiles], bool]] = {
    "smaller-memory": lambda seen, well: (
        'num_gpu_blocks="42"' in seen.text(SECOND, 30)
        and 'num_gpu_blocks="256"' in seen.text(FIRST, 30)
        and seen.value(SECOND, 60, PREEMPTIONS) > 0 == seen.value(FIRST, 60, PREEMPTIONS)
        and min(usage(seen, SECOND)) > 0.5
        and max(usage(seen, FIRST) + usage(seen, THIRD)) < 0.25
    ),
    "workspace-spike": lambda seen, well: (
        "torch.OutOfMemoryError" in seen.log(SECOND)
        and seen.text(SECOND, 35) == ""
        and seen.value(SECOND, 60, TOKENS) < seen.value(SECOND, 25, TOKENS)
    ),
    "leak-on-cancel": lambda seen, well: (
        sum_of(seen, 60, USAGE) > sum_of(seen, 20, USAGE) > sum_of(well, 20, USAGE)
        and seen.counts(60)["leaked"] > 0 == well.counts(60)["leaked"]
        and min(seen.value(target, 60, USAGE) for target in seen.targets) > 0.98
        and sum_of(seen, 60, RUNNING) == 0
        and "leak" not in "".join(map(seen.log, seen.targets))
    ),
    "stalled-replica": lambda seen, well: (
        gap(seen, SECOND, 20, 50) > 3 * gap(well, SECOND, 20, 50)
        and gap(seen, FIRST) < 1.5 * gap(well, FIRST)
    ),
    "hung-replica": lambda seen, well: (
        seen.text(SECOND, 15) == seen.text(SECOND, 85)
        and seen.value(SECOND, 50, RUNNING) > 0
        and "No available shared memory broadcast block" in seen.log(SECOND)
        and seen.growth(FIRST, 20, 80, TOKENS) > 0
    ),
    "slow-start": lambda seen, well: (
        "Loading weights took 20.00 seconds" in seen.log(THIRD)
        and "Loading weights took 4.00 seconds" in seen.log(SECOND)
        and (seen.text(THIRD, 25), seen.text(SECOND, 5)) == ("", "")
        and seen.text(THIRD, 30) != "" != seen.text(SECOND, 15)
    ),
    "longer-outputs": lambda seen, well: (
        seen.total(25, 60, TOKENS) > 2 * well.total(25, 60, TOKENS)
        and seen.total(25, 60, QUERIES) < 1.1 * well.total(25, 60, QUERIES)
    ),
    "long-prompts": lambda seen, well: (
        seen.total(20, 60, PROMPTS) > 2 * well.total(20, 60, PROMPTS)
        and slow_gaps(seen) > 2 * slow_gaps(well)
    ),
    "clustered-arrivals": lambda seen, well: (
        sum_of(seen, 15, RUNNING) >= 40 > sum_of(well, 15, RUNNING)
        and sum_of(seen, 10, RUNNING) == 0
        and abs(seen.counts(60)["arrived"] - well.counts(60)["arrived"]) < 60
    ),
    "retry-storm": lambda seen, well: seen.counts(60)["arrived"] > 1.2 * well.counts(60)["arrived"],
    "tenant-flood": lambda seen, well: (
        seen.counts(60)["arrived"] > 2 * well.counts(60)["arrived"]
        and "acme" not in seen.text(FIRST, 60)
    ),
    "prefix-change": lambda seen, well: (
        seen.total(25, 60, HITS) == 0 < well.total(25, 60, HITS)
        and seen.total(25, 60, QUERIES) > 0.9 * well.total(25, 60, QUERIES)
    ),
    "slow-clients": lambda seen, well: (
        seen.total(25, 60, TOKENS) > 0.9 * well.total(25, 60, TOKENS)
        and seen.counts(60)["undelivered"] > 2 * well.counts(60)["undelivered"]
    ),
    "sticky-routing": lambda seen, well: (
        seen.growth(SECOND, 25, 60, TOKENS) > 0.6 * seen.total(25, 60, TOKENS)
        and well.growth(SECOND, 25, 60, TOKENS) < 0.5 * well.total(25, 60, TOKENS)
    ),
    "draft-disagreement": lambda seen, well: (
        seen.growth(SECOND, 25, 60, ACCEPTED) == 0 < seen.growth(SECOND, 25, 60, DRAFTED)
        and seen.growth(FIRST, 25, 60, ACCEPTED) > 0
        and gap(seen, SECOND) > 1.5 * gap(seen, FIRST)
    ),
    "transfer-limit": lambda seen, well: (
        "Loading weights took 32.00 seconds" in seen.log(SECOND)
        and "Loading weights took 64.00 seconds" in seen.log(THIRD)
        and "torch.compile took 3.00 s" in seen.log(THIRD)
        and seen.text(SECOND, 35) == "" != seen.text(SECOND, 40)
    ),
    "kv-transfer-limit": lambda seen, well: (
        seen.counts(60).get("to_decode", 0) > 20 > seen.counts(25)["to_decode"]
        and sum_of(seen, 25, USAGE) < 0.5
        and sum(seen.value(target, 60, USAGE) for target in (FIRST, SECOND)) > 1.8
        and sum(seen.value(target, 60, RUNNING) for target in (FIRST, SECOND)) == 0
        and seen.value(THIRD, 60, USAGE) < 0.2
        and sum(seen.value(target, 60, WAITING) for target in (FIRST, SECOND)) > 10
    ),
    "wrong-phase-split": lambda seen, well: (
        seen.counts(60).get("to_decode", 0) > 20 > seen.counts(25)["to_decode"]
        and [seen.value(f"replica-{n}", 50, RUNNING) for n in (5, 6, 7)] == [4, 4, 4]
        and seen.growth(THIRD, 30, 60, TOKENS) < 0.2 * seen.growth(THIRD, 0, 25, TOKENS)
        and sum(seen.value(target, 60, USAGE) for target in (FIRST, SECOND, THIRD)) > 2.5
        and sum(seen.value(target, 25, USAGE) for target in (FIRST, SECOND, THIRD)) < 0.5
    ),
    "stale-metrics": lambda seen, well: (
        {seen.text(SECOND, at) for at in (30, 45, 60)} == {well.text(SECOND, 25)}
        and seen.text(FIRST, 60) == well.text(FIRST, 60)
    ),
    "missing-series": lambda seen, well: (
        "cache_usage" in seen.text(FIRST, 25) and "cache_usage" not in seen.text(FIRST, 30)
    ),
    "renamed-series": lambda seen, well: (
        "kv_cache_usage" not in seen.text(SECOND, 30)
        and seen.value(SECOND, 30, "vllm:gpu_cache_usage_perc") == well.value(SECOND, 30, USAGE)
        and seen.text(FIRST, 30) == well.text(FIRST, 30)
    ),
    "lying-metrics": lambda seen, well: (
        max(seen.value(FIRST, at, USAGE) for at in (30, 35, 40, 45)) > 1
        and seen.value(SECOND, 45, RUNNING) == 3 * well.value(SECOND, 45, RUNNING)
        and seen.value(THIRD, 30, TOKENS) < seen.value(THIRD, 25, TOKENS)
    ),
}


def test_every_fault_has_an_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == SEEN.keys()


@pytest.mark.parametrize("name", SEEN)
def test_an_example_shows_what_it_says_and_never_that_it_is_one(
    name: str, well: SeenFiles, tmp_path: Path
) -> None:
    seen = look_at(EXAMPLES / f"{name}.yaml", tmp_path)
    assert SEEN[name](seen, well)
    assert not SEEN[name](well, well)
    told = "\n".join(path.read_text().lower() for path in tmp_path.iterdir())
    for word in ("fault", "intensity", name, name.replace("-", "_")):
        assert not re.search(rf"\b{word}", told)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_written_parses_in_every_dialect(dialect: str, tmp_path: Path) -> None:
    seen = look_at(EXAMPLES / "workspace-spike.yaml", tmp_path, dialect)
    assert {part["kind"] for part in seen.scrapes} == {"metrics"}
    assert {part["kind"] for part in seen.events} == {"log"}
    for part in seen.scrapes:
        families = list(text_string_to_metric_families(part["text"]))
        assert bool(families) is ("error" not in part)


def test_the_command_line_knows_the_dialects_that_there_are() -> None:
    assert set(DIALECTS) == dialects.DIALECTS.keys()


def test_the_same_scenario_writes_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        look_at(EXAMPLES / "retry-storm.yaml", folder)
        texts.append([path.read_text() for path in sorted(folder.iterdir())])
    assert texts[0] == texts[1]


def test_an_unknown_fault_is_answered_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    text = (EXAMPLES / "hung-replica.yaml").read_text()
    file.write_text(text.replace("{fault: hung_replica,", "{fault: hung_replka, intensty: 1,"))
    result = simulate(str(file))
    assert result.exit_code == ExitCode.USAGE
    assert (
        "faults[0].fault: 'hung_replka' is none of the valid ones; did you mean hung_replica?"
        in (result.output)
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("intensity: 4}", "intensty: 4}", "did you mean intensity?"),
        ("replica: replica-1", "replica: replica-7", "faults[0] names replica-7, which is none of"),
        ("{fault: stalled_replica,", "{", "needs fault, which says what it is"),
        ("stalled_replica, ", "draft_disagreement, ", "add replicas.cost.speculation"),
        ("stalled_replica, replica: replica-1, ", "transfer_limit, ", "cold_start.weights"),
        ("at: 20s", "at: 20", "20 is not a duration"),
    ],
)
def test_a_mistake_in_a_fault_is_named_with_its_remedy(
    old: str, new: str, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "bad.yaml"
    text = (EXAMPLES / "stalled-replica.yaml").read_text()
    assert old in text
    if "draft" in new:
        text = text.replace("intensity: 4", "intensity: 1")
    file.write_text(text.replace(old, new))
    result = simulate(str(file))
    assert result.exit_code == ExitCode.USAGE
    assert says in result.output


def test_options_of_metrics_need_a_folder_and_a_scenario(tmp_path: Path) -> None:
    example = str(EXAMPLES / "stalled-replica.yaml")
    assert "give it" in simulate(example, "--dialect", "vllm").output
    case = str(EXAMPLES.parent / "chunked-prefill.yaml")
    assert "are for a Scenario" in simulate(case, "--metrics", str(tmp_path)).output
    assert "not between 100ms and 1h" in simulate(example, "--every", "1ms").output


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = simulate(str(EXAMPLES / "stalled-replica.yaml"), "--metrics", str(blocked / "inside"))
    assert result.exit_code != 0
    assert "name another folder after --metrics" in result.output


@pytest.mark.parametrize(
    ("dialect", "said"),
    [("pilothouse", "is not released: a leak"), ("sglang", "pool memory leak detected!")],
)
def test_the_log_of_an_engine_that_looks_for_leaks_tells_of_them(
    dialect: str, said: str, tmp_path: Path
) -> None:
    seen = look_at(EXAMPLES / "leak-on-cancel.yaml", tmp_path / "seen", dialect)
    assert all(said in seen.log(target) for target in seen.targets)
    if dialect == "pilothouse":
        assert sum_of(seen, 60, "pilothouse_replica_unreleased_requests") > 0
