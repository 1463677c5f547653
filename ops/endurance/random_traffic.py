"""Who calls a random fleet: clients that leave, read slowly, stop reading and come again."""

import random

from dataplane.simulation.arrivals import ArrivalProcess, Bursts, Poisson, Regular
from dataplane.simulation.call import Caller
from dataplane.simulation.clients import PATIENT, ClientBehaviour, Reading, Retries
from dataplane.simulation.distributions import (
    Constant,
    Distribution,
    Empirical,
    Exponential,
    LogNormal,
    Uniform,
)
from dataplane.simulation.traffic import SharedPrefixes, TrafficSpec, Turns
from ops.endurance.random_policy import SESSION_HEADER

TENANTS = ("one", "two", "unknown")
"""The last is nobody's."""


def random_traffic(draw: random.Random, name: str) -> TrafficSpec:
    """One kind of traffic."""
    processes: tuple[ArrivalProcess, ...] = (
        Poisson(draw.uniform(0.5, 8)),
        Bursts(rate=draw.uniform(0.1, 0.5), mean_size=draw.uniform(1, 15), within=0.5),
        Regular(draw.uniform(0.2, 2)),
    )
    prompts: tuple[Distribution, ...] = (
        Constant(draw.randint(1, 60)),
        LogNormal(median=30, sigma=1.0),
        Empirical([1, 5, 50, 300]),
    )
    return TrafficSpec(
        name=name,
        process=draw.choice(processes),
        callers=[
            (
                Caller(
                    tenant=tenant,
                    client=_random_client(draw),
                    headers={SESSION_HEADER: tenant},
                    is_stream=draw.random() < 0.8,
                ),
                draw.uniform(0.1, 1),
            )
            for tenant in TENANTS
        ],
        prompt=draw.choice(prompts),
        output=draw.choice((Constant(1), LogNormal(median=12, sigma=1.0), Uniform(1, 80))),
        max_tokens=draw.choice((None, Constant(20), Uniform(1, 60))),
        prefixes=draw.choice((None, SharedPrefixes(num_prefixes=3, length=Uniform(1, 60)))),
        turns=draw.choice(
            (
                None,
                Turns(num_turns=Uniform(1, 4), wait=Exponential(0.5), added=Uniform(1, 10)),
            )
        ),
    )


def _random_client(draw: random.Random) -> ClientBehaviour:
    if draw.random() < 0.3:
        return PATIENT
    return ClientBehaviour(
        name="random",
        first_token_within=draw.choice((None, 0.05, 1.0)),
        answer_within=draw.choice((None, 0.5, 5.0)),
        reading=draw.choice(
            (
                None,
                Reading(tokens_per_second=20, buffered_tokens=4),
                Reading(tokens_per_second=10, stops_after=5, buffered_tokens=3),
            )
        ),
        retries=draw.choice(
            (
                None,
                Retries(max_retries=3, backoff=0),
                Retries(max_retries=2, backoff=0.5, jitter=0.5, when_impatient=True),
                Retries(max_retries=1, backoff=0.1, heeds_retry_after=True),
            )
        ),
    )
