"""From what a scenario says of its traffic and its clients to what the simulation runs."""

from controlplane.specs.scenario_traffic import ArrivalsSpec, ClientSpec, LengthSpec, WaitSpec
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

_NO_CLIENT: dict[str, float] = {"": 1.0}


def compile_traffic(spec: ArrivalsSpec, clients: dict[str, ClientBehaviour]) -> TrafficSpec:
    """Calls that are drawn; those that are replayed are read by `ScenarioFiles`."""
    assert spec.prompt is not None
    assert spec.output is not None
    return TrafficSpec(
        name=spec.name,
        process=_process(spec),
        callers=[
            (
                Caller(
                    tenant=tenant,
                    client=clients.get(client, PATIENT),
                    headers=spec.headers,
                    is_stream=spec.stream,
                ),
                of_tenant * of_client,
            )
            for tenant, of_tenant in spec.tenants.items()
            for client, of_client in (spec.clients or _NO_CLIENT).items()
        ],
        prompt=_length(spec.prompt),
        output=_length(spec.output),
        max_tokens=None if spec.max_tokens is None else _length(spec.max_tokens),
        num_sequences=None if spec.num_sequences is None else _length(spec.num_sequences),
        prefixes=None
        if spec.prefixes is None
        else SharedPrefixes(
            num_prefixes=spec.prefixes.count,
            length=_length(spec.prefixes.length),
            share=spec.prefixes.share,
            skew=spec.prefixes.skew,
        ),
        turns=None
        if spec.turns is None
        else Turns(
            num_turns=_length(spec.turns.count),
            wait=compile_wait(spec.turns.wait),
            added=_length(spec.turns.added),
        ),
        starts_at=spec.start or 0.0,
        ends_at=spec.stop,
    )


def _process(spec: ArrivalsSpec) -> ArrivalProcess:
    if spec.poisson is not None:
        return Poisson(spec.poisson)
    if spec.every is not None:
        return Regular(spec.every)
    assert spec.bursts is not None
    bursts = spec.bursts
    return Bursts(rate=bursts.rate, mean_size=bursts.mean_size, within=bursts.within)


def only_client(spec: ArrivalsSpec, clients: dict[str, ClientBehaviour]) -> ClientBehaviour:
    """Who sends the calls of a replay."""
    return next((clients[name] for name in spec.clients), PATIENT)


def _length(spec: LengthSpec) -> Distribution:
    if spec.constant is not None:
        return Constant(spec.constant)
    if spec.seen is not None:
        return Empirical(spec.seen)
    if spec.median is not None and spec.sigma is not None:
        most = float("inf") if spec.at_most is None else spec.at_most
        return LogNormal(median=spec.median, sigma=spec.sigma, most=most)
    assert spec.at_least is not None
    assert spec.at_most is not None
    return Uniform(spec.at_least, spec.at_most)


def compile_wait(spec: WaitSpec) -> Distribution:
    """How long somebody waits, in seconds."""
    if spec.constant is not None:
        return Constant(spec.constant)
    if spec.mean is not None:
        return Exponential(spec.mean)
    assert spec.median is not None
    assert spec.sigma is not None
    return LogNormal(median=spec.median, sigma=spec.sigma)


def compile_client(name: str, spec: ClientSpec) -> ClientBehaviour:
    """What clients of this name do."""
    reading, retries = spec.reading, spec.retries
    return ClientBehaviour(
        name=name,
        first_token_within=spec.first_token_within,
        answer_within=spec.answer_within,
        reading=None
        if reading is None
        else Reading(
            tokens_per_second=reading.tokens_per_second,
            stops_after=reading.stops_after,
            buffered_tokens=reading.buffered_tokens,
        ),
        retries=None
        if retries is None
        else Retries(
            max_retries=retries.most,
            backoff=retries.backoff or 0,
            factor=retries.factor,
            jitter=retries.jitter,
            longest=retries.longest,
            heeds_retry_after=retries.heeds_retry_after,
            when_impatient=retries.when_impatient,
        ),
    )
