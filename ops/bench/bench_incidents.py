"""How many incidents from the field are named as they were finally confirmed, by us and by a peer.

    .venv/bin/python ops/bench/bench_incidents.py
    .venv/bin/python ops/bench/bench_incidents.py --peer VENV --only-top

Each case (format: `tests/incidents/README.md`) is judged by the rules of `pilothouse diagnose`. It
is right where the mechanism is the confirmed one; where the case says `cannot_tell`, only that is
right. With `--peer`, a virtual environment that holds `vllm-doctor` (`python -m venv VENV &&
VENV/bin/pip install vllm-doctor==0.6.0`), each of its metrics pages is served to `vllm-doctor
diagnose`, the one after the other, in the same run.

The peer names symptoms and no mechanisms, so it is judged with all goodwill: it is right where any
of its findings, about any of the pages, can be read as the confirmed mechanism (`READINGS`), and
for `healthy` where it finds nothing. A log it cannot read: such a case counts as one without an
answer, and beside the whole stands the share of the cases that it can read.
"""

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ruamel.yaml import YAML

from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.case import read_case

READINGS: dict[str, frozenset[Mechanism]] = {
    "kv_cache_pressure": frozenset(
        {
            Mechanism.CACHE_THRASH,
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.CACHE_GROWN_CONTEXTS,
            Mechanism.OOM_DECODE_GROWTH,
        }
    ),
    "queue_pressure": frozenset(
        {Mechanism.QUEUE_OVERLOAD, Mechanism.QUEUE_BLOCKED, Mechanism.QUEUE_HEAD_OF_LINE}
    ),
    "queue_latency": frozenset({Mechanism.QUEUE_OVERLOAD, Mechanism.QUEUE_HEAD_OF_LINE}),
    "preemption_pressure": frozenset({Mechanism.CACHE_THRASH}),
    "low_throughput": frozenset(
        {Mechanism.BATCH_UNDERFILLED, Mechanism.ENGINE_HUNG, Mechanism.HOST_BOUND}
    ),
    "error_rate": frozenset({Mechanism.POLICY_REJECTING, Mechanism.ENGINE_HUNG}),
    "ttft_bottleneck": frozenset({Mechanism.INTERFERENCE_PREFILL, Mechanism.QUEUE_HEAD_OF_LINE}),
    "tpot_bottleneck": frozenset({Mechanism.INTERFERENCE_PREFILL, Mechanism.HOST_BOUND}),
    "prefix_cache_efficiency": frozenset(
        {Mechanism.CACHE_NOTHING_SHARED, Mechanism.CACHE_PREFIX_LOSS}
    ),
    "replica_imbalance": frozenset({Mechanism.ROUTING_SKEW}),
}
"""What each of the peer's checks can be taken to say."""
_PEER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Judged:
    """One case."""

    id: str
    confirmed: Mechanism
    ours: Mechanism
    peer: frozenset[str] | None
    """The checks of the peer that found something; None: it can read nothing of the case."""

    @property
    def is_ours_right(self) -> bool:
        """We named it."""
        return self.ours is self.confirmed

    @property
    def is_peer_right(self) -> bool:
        """Something that the peer says can be read as it."""
        if self.peer is None:
            return False
        if self.confirmed is Mechanism.HEALTHY:
            return not self.peer
        return any(self.confirmed in READINGS.get(check, frozenset()) for check in self.peer)


def main() -> None:
    """Judge all cases and print the table."""
    options = _options()
    pattern = "*.yaml" if options.only_top else "**/*.yaml"
    paths = sorted(path for folder in options.cases for path in folder.glob(pattern))
    if not paths:
        sys.exit(f"no *.yaml in {', '.join(map(str, options.cases))}")
    judged = [_judge(path, options.peer) for path in paths]
    for each in judged:
        if not each.is_ours_right:
            print(f"  {each.id}: confirmed {each.confirmed.value}, named {each.ours.value}")
    _print_share("pilothouse", [each.is_ours_right for each in judged])
    if options.peer is not None:
        _print_share("vllm-doctor", [each.is_peer_right for each in judged])
        readable = [each for each in judged if each.peer is not None]
        if readable:
            print(f"of the {len(readable)} cases with a metrics page:")
            _print_share("  pilothouse", [each.is_ours_right for each in readable])
            _print_share("  vllm-doctor", [each.is_peer_right for each in readable])
    if options.json is not None:
        options.json.write_text(json.dumps([_facts(each) for each in judged], indent=2))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, nargs="+", default=[Path("tests/incidents")])
    parser.add_argument(
        "--only-top", action="store_true", help="leave out what lies in folders below"
    )
    parser.add_argument("--peer", type=Path, help="a virtual environment with vllm-doctor")
    parser.add_argument("--json", type=Path, help="write each case's answers there")
    return parser.parse_args()


def _judge(path: Path, peer: Path | None) -> Judged:
    text = path.read_text(encoding="utf-8")
    case = read_case(text, str(path))
    if case.expect is None:
        sys.exit(f"{path}: it says no `expect`, so nothing can be held against it")
    pages = _pages(text)
    return Judged(
        id=case.id,
        confirmed=case.expect.mechanism,
        ours=diagnose(case.window, BUILT_IN_RULES).mechanism,
        peer=_ask_peer(peer, pages) if peer is not None and pages else None,
    )


def _pages(text: str) -> list[str]:
    parts = YAML(typ="safe").load(text)["input"]
    return [part["text"] for part in parts if part["kind"] == "metrics"]


def _ask_peer(venv: Path, pages: Sequence[str]) -> frozenset[str]:
    found: set[str] = set()
    for text in pages:
        with _served(text) as url:
            ran = subprocess.run(
                [venv / "bin" / "vllm-doctor", "diagnose", url, "--output", "json"],
                capture_output=True,
                text=True,
                timeout=_PEER_SECONDS,
                check=False,
            )
        try:
            checks = json.loads(ran.stdout)["checks"]
        except (ValueError, KeyError):
            sys.exit(
                f"vllm-doctor ended with {ran.returncode}: {(ran.stderr or ran.stdout)[-800:]}"
            )
        found |= {check["id"] for check in checks if check["finding"] is not None}
    return frozenset(found)


@contextmanager
def _served(text: str) -> Iterator[str]:
    """The page at a URL of this machine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_it = self.path == "/metrics"
            self.send_response(200 if is_it else 404)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            if is_it:
                self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nothing: the table is what is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _print_share(name: str, right: Sequence[bool]) -> None:
    print(f"{name:<14} {sum(right):>4} of {len(right):<4} {sum(right) / len(right):6.1%}")


def _facts(judged: Judged) -> dict[str, object]:
    return {
        "id": judged.id,
        "confirmed": judged.confirmed.value,
        "pilothouse": judged.ours.value,
        "vllm_doctor": None if judged.peer is None else sorted(judged.peer),
        "is_right": judged.is_ours_right,
        "is_peer_right": judged.is_peer_right,
    }


if __name__ == "__main__":
    main()
