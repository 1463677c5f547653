"""How fast a fleet is simulated: requests a second of one core, and how much memory it takes.

    python ops/bench/bench_simulator.py
    python ops/bench/bench_simulator.py --requests 100000 --prefix-caching

Prompts have a median of 300 tokens and answers of 100, both log-normal; eight replicas run up to
64 sequences at once, before them stands one gateway with the real admission, queue and routing.
The load is what the replicas just carry. The time is of this process alone (`process_time`), all
in: arrivals, admission, queue, routing, steps, results and percentiles. The checksum is of all
results: the same for the same arguments, on every machine and in every run.
"""

import argparse
import cProfile
import pstats
import resource
import time

from dataplane.policy import AdmissionPolicyTerms, ClassPolicy
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.arrivals import Poisson
from dataplane.simulation.call import Caller
from dataplane.simulation.clients import PATIENT
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.distributions import Constant, LogNormal
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import FleetScenario, name_replicas
from dataplane.simulation.traffic import SharedPrefixes, TrafficSpec

NUM_REPLICAS = 8
COST = LinearCost(iteration=0.008, per_prompt_token=4e-5, per_decode_step=2e-4)
"""Seconds: a step with 64 decodes takes some 21 ms, so that a replica gives 3000 tokens a second.
"""


def scenario(num_requests: int, rate: float, is_prefix_caching: bool) -> FleetScenario:
    """What is measured."""
    bounds = SchedulerConfig(
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        max_model_len=32768,
        num_blocks=8192,
        block_size=16,
        is_prefix_caching=is_prefix_caching,
    )
    caller = Caller(tenant="default", client=PATIENT, headers={})
    return FleetScenario(
        name="bench",
        seed=1,
        duration=60 + 1.05 * num_requests / rate,
        replicas=tuple(
            ReplicaSpec(replica_id=name, scheduler=bounds, cost=COST)
            for name in name_replicas(NUM_REPLICAS)
        ),
        policy=AdmissionPolicyTerms(
            revision="bench@1", classes=(ClassPolicy(name="all", max_queue=1_000_000),)
        ),
        traffic=(
            TrafficSpec(
                name="all",
                process=Poisson(rate),
                callers=[(caller, 1.0)],
                prompt=LogNormal(median=300, sigma=0.6, most=8000),
                output=LogNormal(median=100, sigma=0.6, most=4000),
                prefixes=SharedPrefixes(num_prefixes=50, length=Constant(160))
                if is_prefix_caching
                else None,
                max_calls=num_requests,
            ),
        ),
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=150.0, help="requests a second that arrive")
    parser.add_argument("--prefix-caching", action="store_true")
    parser.add_argument("--histograms", action="store_true", help="keep no row of any request")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    fleet = Fleet(
        scenario(options.requests, options.rate, options.prefix_caching),
        keeps_rows=not options.histograms,
    )
    profile = cProfile.Profile()
    began = time.process_time()
    if options.profile:
        profile.enable()
    results = fleet.run()
    of_class = results.of_class("all")
    quantiles = results.quantiles(of_class, [0.5, 0.95, 0.99])
    profile.disable()
    seconds = time.process_time() - began
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    print(f"requests      {of_class.num_offered}, {of_class.num_answered} answered")
    print(f"virtual time  {fleet.timeline.now:.0f} s")
    print(
        f"one core      {seconds:.1f} s, {of_class.num_offered / seconds:.0f} requests/s, "
        f"{1e6 * seconds / of_class.num_offered:.1f} us each"
    )
    print(f"peak memory   {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    for replica in fleet.replicas.values():
        counts = replica.counts()
        print(
            f"{replica.replica_id}     {counts.num_requests} requests, {counts.num_steps} steps, "
            f"{100 * counts.busy_seconds / counts.serving_seconds:.0f} % busy"
        )
    for name, (p50, p95, p99) in quantiles.items():
        print(f"{name:13} p50 {p50:.4f}  p95 {p95:.4f}  p99 {p99:.4f} s")
    if results.columns is not None:
        print(f"checksum      {results.columns.checksum()}")


if __name__ == "__main__":
    main()
