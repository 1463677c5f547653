"""`pilothouse fit`."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.operator.observed import ObservedReplica
from controlplane.store.records import RecordBatch, store_batch
from controlplane.store.reservoirs import ReservoirSizes
from dataplane.clock import wall_clock
from dataplane.engine import ReplicaStatus
from dataplane.record import RequestRecord, encode_record
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.document import decode_fit, load_fit
from tests.controlplane.control_plane_server import serve_control_plane
from tests.dataplane.simulation.fitting.simulated_records import (
    OVERHEADS,
    simulated_records,
    varied_requests,
)
from tests.dataplane.simulation.fitting.simulated_spans import WHOLE_PROMPTS, spans_of

FLEET = Path(__file__).parents[3] / "ops/examples/simulate/fleet.yaml"
COST = LinearCost(iteration=0.05, per_prompt_token=0.004, per_decode_step=0.006)
# So few a minute that a control plane keeps them all.
RECORDS = simulated_records(COST, varied_requests(60, 0.2, seed=1), overheads=OVERHEADS)
REPLICA = ObservedReplica(
    replica_id="chat-7f", deployment="chat", engine="paged", model_revision="smollm2@1",
    state="ready", reason="", stage="serving", pid=4242, address="127.0.0.1:9001",
    metrics_address="127.0.0.1:9002", start_stages={"load": 1.25}, probed_at_unix_ns=None,
    observed_at_unix_ns=wall_clock(),
)  # fmt: skip


def fit(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["fit", *arguments], input=text)


def exported(records: list[RequestRecord]) -> list[str]:
    """OTLP JSON of the spans that vLLM writes, one request a line."""
    return [
        json.dumps(
            {
                "resourceSpans": [
                    {
                        "resource": {"attributes": [_attribute("service.name", "vllm")]},
                        "scopeSpans": [
                            {
                                "scope": {"name": "vllm.llm_engine"},
                                "spans": [
                                    {
                                        "traceId": "0af7651916cd43dd8448eb211c80319c",
                                        "spanId": "b7ad6b7169203331",
                                        "name": span.name,
                                        "kind": 2,
                                        "startTimeUnixNano": str(span.start_unix_ns),
                                        "attributes": [
                                            _attribute(*each) for each in span.attributes.items()
                                        ],
                                    }
                                ],
                            }
                        ],
                    }
                ]
            }
        )
        for span in spans_of(records)
    ]


def _attribute(key: str, value: str | int | float) -> dict[str, object]:
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    kind = "stringValue" if isinstance(value, str) else "doubleValue"
    return {"key": key, "value": {kind: value}}


def lines(records: list[RequestRecord]) -> str:
    return "".join(encode_record(record).decode() + "\n" for record in records)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    path.write_text(lines(RECORDS))
    return path


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A control plane that has taken the records in, and knows one replica."""
    later = wall_clock() - 3600 * 10**9 - RECORDS[0].arrived_at_unix_ns
    recent = tuple(
        dataclasses.replace(r, arrived_at_unix_ns=r.arrived_at_unix_ns + later) for r in RECORDS
    )
    batch = RecordBatch(gateway_id=RECORDS[0].gateway_id, num_lost=0, records=recent)
    with serve_control_plane(tmp_path_factory.mktemp("fit")) as (url, opened):
        with opened.request_db.session() as session:
            store_batch(session, batch, Random(1), ReservoirSizes())
        opened.operator.stop()
        opened.observed.set_replicas([REPLICA])
        yield url


def test_coefficients_residuals_and_what_cannot_be_told_are_shown(file: Path) -> None:
    result = fit(str(file))
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "learned from" in text
    assert "per prompt token +4 ms" in text
    assert "decode" in text
    assert "mixed" in text
    assert "cold start: no start of a replica was given" in text


def test_the_saved_fit_is_the_one_on_standard_output(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "chat.fit.json"
    result = fit(str(file), "-o", "json", "--out", str(out), "--machine", "rack-7")
    assert result.exit_code == 0, result.output
    found = load_fit(out)
    assert found == decode_fit(result.stdout.encode(), "stdout")
    assert (found.machine.name, found.machine.num_processors) == ("rack-7", None)
    assert f"saved to {out}" in result.stderr


def test_records_may_come_on_standard_input_and_from_folders(file: Path) -> None:
    (file.parent / "spool").mkdir()
    (file.parent / "spool" / "1.records").write_text(lines(RECORDS))
    piped = fit("-", "-o", "json", text=lines(RECORDS))
    folder = fit(str(file.parent / "spool"), "-o", "json")
    assert piped.exit_code == folder.exit_code == 0, piped.output + folder.output
    assert json.loads(piped.stdout)["form"] == json.loads(folder.stdout)["form"]


def test_starts_give_the_cold_start(file: Path, tmp_path: Path) -> None:
    status = ReplicaStatus(
        replica_id="r-1",
        pid=1,
        stage="serving",
        address=None,
        metrics_address=None,
        stages={"acquire": 0.5, "load": 6.0},
    )
    (tmp_path / "status.json").write_bytes(msgspec.json.encode(status))
    result = fit(str(file), "-o", "json", "--start", str(tmp_path / "status.json"))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["cold_start"]["load"]["median"] == 6.0


def test_requests_of_another_deployment_are_left_out_and_not_missing(file: Path) -> None:
    mixed = [
        dataclasses.replace(record, deployment="other", replica_ids=("elsewhere",))
        if number % 3 == 0
        else record
        for number, record in enumerate(RECORDS)
    ]
    file.write_text(lines(mixed))
    result = fit(str(file), "--deployment", "chat", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["num_requests"] == 40
    assert not any("missing" in each for each in found["cannot_tell"])


def test_a_deployment_that_no_request_is_of_is_refused_with_those_there_are(file: Path) -> None:
    result = fit(str(file), "--deployment", "nope")
    assert result.exit_code == ExitCode.USAGE
    assert "none of 60 requests is of the deployment 'nope'; they are of chat." in " ".join(
        result.stderr.split()
    )


def test_a_running_control_plane_is_asked_for_the_records_it_kept(url: str) -> None:
    result = fit("--url", url, "--deployment", "chat", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["form"]["per_prompt_token"] == pytest.approx(0.004, rel=0.02)
    assert found["num_requests"] == 60
    assert found["cold_start"]["load"]["median"] == 1.25


def test_a_control_plane_that_is_not_there_is_told_as_ever() -> None:
    result = fit("--url", "http://127.0.0.1:9")
    assert result.exit_code == ExitCode.UNREACHABLE


def test_a_line_that_is_no_record_is_named_with_its_place(file: Path) -> None:
    file.write_text(lines(RECORDS[:3]) + '{"request_id": 7}\n')
    result = fit(str(file))
    assert result.exit_code == ExitCode.USAGE
    assert f"{file}:4: this is no full record of a request" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.jsonl",), "cannot read nowhere.jsonl: No such file"),
        (("{folder}",), "there are no *.records or *.jsonl files under"),
        (("{file}", "--start", "{file}"), "is no replica's status file"),
        (("{file}", "--since", "yesterday"), "--since"),
        (("--vllm-metrics", "a", "b", "--vllm-spans"), "--vllm-metrics is a source by itself"),
    ],
)
def test_what_cannot_be_read_is_wrong_input(
    file: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "folder").mkdir()
    given = [each.format(file=file, folder=tmp_path / "folder") for each in arguments]
    result = fit(*given)
    assert result.exit_code == ExitCode.USAGE
    assert words in result.stderr


def test_records_that_carry_no_fit_are_refused_with_the_remedy(file: Path, tmp_path: Path) -> None:
    file.write_text(lines(RECORDS[:1]))
    result = fit(str(file), "--out", str(tmp_path / "fit.json"))
    assert result.exit_code == ExitCode.FAILED
    assert "no fit: only" in result.stderr
    assert "Remedy: send more traffic" in result.stderr
    assert not (tmp_path / "fit.json").exists()


def test_a_fit_that_cannot_be_saved_is_told_with_the_place(file: Path) -> None:
    result = fit(str(file), "--out", str(file / "fit.json"))
    assert result.exit_code == ExitCode.FAILED
    assert f"cannot be saved to {file}/fit.json" in result.stderr


def test_a_fit_into_a_folder_that_is_not_there_is_refused_before_it_is_made(
    file: Path, tmp_path: Path
) -> None:
    result = fit(str(file), "--out", str(tmp_path / "missing/dir/fit.json"))
    assert result.exit_code == ExitCode.USAGE
    assert f"there is no folder {tmp_path}/missing/dir; make it with `mkdir -p" in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "missing").exists()


def test_the_costs_of_a_simulated_fleet_are_found_in_its_records(tmp_path: Path) -> None:
    """Two gateways, four replicas, retries, cancels and shared prefixes between them."""
    text = FLEET.read_text().replace("duration: 3m", "duration: 8s")
    (tmp_path / "fleet.yaml").write_text(text)
    out = tmp_path / "records.jsonl"
    simulated = CliRunner().invoke(
        main, ["simulate", str(tmp_path / "fleet.yaml"), "--records", str(out)]
    )
    assert simulated.exit_code == 0, simulated.output
    result = fit(str(out), "-o", "json")
    assert result.exit_code == 0, result.output
    form = json.loads(result.stdout)["form"]
    assert "cost: {iteration: 8ms, per_prompt_token: 40us, per_decode_step: 200us}" in text
    assert [knot["seconds"] for knot in form["knots"]] == pytest.approx([0.008], rel=1e-3)
    assert form["per_prompt_token"] == pytest.approx(40e-6, rel=1e-3)
    assert form["per_decode_step"] == pytest.approx(200e-6, rel=1e-3)


@pytest.fixture(scope="module")
def span_lines() -> list[str]:
    requests = varied_requests(120, 4.0, seed=1)
    return exported(simulated_records(COST, requests, bounds=WHOLE_PROMPTS))


def test_spans_of_vllm_are_a_source_of_a_fit(span_lines: list[str], tmp_path: Path) -> None:
    """In two files, the second of which goes on where the first was rotated."""
    files = [tmp_path / "traces.json", tmp_path / "traces-2.json"]
    files[0].write_text("\n".join(span_lines[:70]) + "\n")
    files[1].write_text("\n".join(span_lines[70:]) + "\n")
    result = fit("--vllm-spans", *map(str, files), "--out", str(tmp_path / "fit.json"))
    assert result.exit_code == 0, result.output
    assert "learned from  prefills and decodes of 120 requests" in result.stdout
    assert "how many steps a prefill took" in result.stdout
    found = load_fit(tmp_path / "fit.json")
    assert found.form.per_prompt_token == pytest.approx(0.004, rel=0.01)
    assert found.form.knots[0].seconds == pytest.approx(0.05, rel=0.05)


def test_spans_may_come_on_standard_input_and_as_one_document(span_lines: list[str]) -> None:
    by_line = fit("--vllm-spans", "-", "-o", "json", text="\n".join(span_lines))
    parts = [json.loads(line)["resourceSpans"] for line in span_lines]
    document = json.dumps({"resourceSpans": [each for part in parts for each in part]}, indent=1)
    at_once = fit("--vllm-spans", "-", "-o", "json", text=document)
    assert by_line.exit_code == 0, by_line.output
    assert at_once.stdout == by_line.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"resourceSpans": []}\n{"resourceSpans": 3}\n', "traces.json:2: this is no OTLP trace"),
        ("<html>", "traces.json: this is no OTLP trace"),
        ('{"resourceSpans": []}\n', "no fit: 0 spans of requests can be read, and at least 50"),
    ],
    ids=["a line", "a page", "no spans"],
)
def test_spans_that_cannot_be_read_are_told_with_the_place(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "traces.json").write_text(text)
    result = fit("--vllm-spans", str(tmp_path / "traces.json"))
    assert result.exit_code in (ExitCode.USAGE, ExitCode.FAILED)
    assert told in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("-", "--since", "10m"), ("-", "--deployment", "chat"), ("-", "--start", "status.json")],
    ids=" ".join,
)
def test_spans_are_read_from_files_alone(arguments: tuple[str, ...]) -> None:
    result = fit("--vllm-spans", *arguments, text="")
    assert result.exit_code == ExitCode.USAGE
    assert "--vllm-spans needs files of spans" in result.stderr
