"""How long after a client vanishes in mid-stream is its request released?

Runs against a gateway that serves a model. Each trial starts a stream, reads some chunks,
hangs up, and watches the gateway's live list until the request is gone from it, which is
when the engine has said that every block can be used again. Client and gateway share this
machine's clock, and polling adds to what is reported, so the figure is an upper bound. One
poller serves all trials: one for each would take the cores away from the step that is measured.

The goal is one engine step and 100 ms. A step is taken as the largest gap between the chunks
that the trial itself read.

    python ops/bench/bench_disconnect.py --url http://127.0.0.1:8701 --model NAME
"""

import argparse
import asyncio
import itertools
import statistics
import time
from dataclasses import dataclass

import httpx

from ops.bench.hot_path.figures import milliseconds

_GOAL_BEYOND_STEP_SECONDS = 0.1
_GIVE_UP_SECONDS = 30.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Seconds of one disconnect."""

    disconnect_to_released: float
    step: float

    @property
    def is_within_goal(self) -> bool:
        return self.disconnect_to_released <= self.step + _GOAL_BEYOND_STEP_SECONDS


class LiveWatch:
    """Tells when requests are gone from the gateway's live list. Only one task asks for it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._gone_by_id: dict[str, asyncio.Event] = {}

    async def wait_until_gone(self, request_id: str) -> None:
        """Raises TimeoutError when it never is."""
        gone = self._gone_by_id[request_id] = asyncio.Event()
        async with asyncio.timeout(_GIVE_UP_SECONDS):
            await gone.wait()

    async def run(self) -> None:
        """Look again and again, while somebody waits."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if self._gone_by_id:
                live = (await self._http.get("/internal/requests")).json()["requests"]
                self._note({request["request_id"] for request in live})

    def _note(self, live_ids: set[str]) -> None:
        for request_id in self._gone_by_id.keys() - live_ids:
            self._gone_by_id.pop(request_id).set()


async def measure(http: httpx.AsyncClient, watch: LiveWatch, model: str, num_chunks: int) -> Trial:
    """One trial. Raises TimeoutError when the request is never released."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Count slowly from one to a thousand."}],
        "max_tokens": 512,
        # An answer that ends by itself before the hang-up would count as a quick release.
        "ignore_eos": True,
        "stream": True,
    }
    times: list[float] = []
    async with http.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != httpx.codes.OK:
            await response.aread()
            raise SystemExit(f"the gateway answered {response.status_code}: {response.text}")
        request_id = response.headers["x-request-id"]
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                times.append(time.monotonic())
            if len(times) > num_chunks:
                break
    hung_up_at = time.monotonic()
    await watch.wait_until_gone(request_id)
    return Trial(
        disconnect_to_released=time.monotonic() - hung_up_at,
        step=max(later - earlier for earlier, later in itertools.pairwise(times)),
    )


async def run(url: str, model: str, num_trials: int, concurrency: int, num_chunks: int) -> int:
    """Prints the result; 0 when every trial kept the goal."""
    trials: list[Trial] = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        watch = LiveWatch(http)
        watching = asyncio.create_task(watch.run())
        await measure(http, watch, model, num_chunks)  # not counted: the first one warms up
        for _ in range(0, num_trials, concurrency):
            trials += await asyncio.gather(
                *(measure(http, watch, model, num_chunks) for _ in range(concurrency))
            )
        watching.cancel()
    released = sorted(trial.disconnect_to_released for trial in trials)
    num_good = sum(trial.is_within_goal for trial in trials)
    print(f"{len(trials)} disconnects in mid-stream, {concurrency} at a time")
    print(
        f"disconnect to released: median {statistics.median(released) * 1e3:.1f} ms, "
        f"p95 {milliseconds(released, 0.95):.1f} ms, "
        f"max {released[-1] * 1e3:.1f} ms"
    )
    step = statistics.median(trial.step for trial in trials)
    print(f"largest step of each stream: median {step * 1e3:.1f} ms")
    print(f"within one step + {_GOAL_BEYOND_STEP_SECONDS * 1e3:.0f} ms: {num_good}/{len(trials)}")
    return 0 if num_good == len(trials) else 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:8701")
    parser.add_argument("--model", required=True)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--chunks", type=int, default=8, help="chunks read before hanging up")
    options = parser.parse_args()
    raise SystemExit(
        asyncio.run(
            run(options.url, options.model, options.trials, options.concurrency, options.chunks)
        )
    )


if __name__ == "__main__":
    main()
