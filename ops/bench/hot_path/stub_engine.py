"""`python -m ops.bench.hot_path.stub_engine`: an engine without a model, at a fixed pace.

It speaks the replicas' own protocol on one port and OpenAI's streams on another, and prints both
addresses as one line of JSON once it listens. It ends with SIGTERM.
"""

import argparse
import asyncio
import json
import signal
import sys

import uvloop

from dataplane.clock import monotonic_clock
from ops.bench.hot_path.openai_door import OpenAIDoor
from ops.bench.hot_path.paced_streams import PacedStreams
from ops.bench.hot_path.replica_door import ReplicaTerms, replica_doors

TICK_SECONDS = 0.001
REPLICA_ID = "stub-0"


async def serve(terms: ReplicaTerms, pace_seconds: float) -> None:
    """Until SIGTERM."""
    loop = asyncio.get_running_loop()
    streams = PacedStreams(pace_seconds, terms.num_slots, monotonic_clock, TICK_SECONDS)
    native = await loop.create_server(replica_doors(terms, streams), "127.0.0.1", 0)
    openai_door = OpenAIDoor(terms.num_chunks, streams)
    http = await loop.create_server(openai_door.connect, "127.0.0.1", 0, backlog=2048)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)

    def tick() -> None:
        streams.run_due()
        loop.call_later(TICK_SECONDS, tick)

    tick()
    addresses = {"replica": _address(native), "http": _address(http)}
    sys.stdout.write(json.dumps(addresses) + "\n")
    sys.stdout.flush()
    await ended.wait()


def _address(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()[:2]
    return f"{host}:{port}"


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=64, help="of an answer, at most")
    parser.add_argument("--pace-ms", type=float, default=5.0, help="from one chunk to the next")
    parser.add_argument("--slots", type=int, default=100_000, help="streams at once")
    parser.add_argument(
        "--prefill-us", type=float, default=0.0, help="for each token of a prompt (replicas only)"
    )
    options = parser.parse_args()
    terms = ReplicaTerms(
        replica_id=REPLICA_ID,
        num_slots=options.slots,
        num_chunks=options.chunks,
        prefill_seconds_per_token=options.prefill_us / 1e6,
    )
    uvloop.run(serve(terms, options.pace_ms / 1e3))


if __name__ == "__main__":
    main()
