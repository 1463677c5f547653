"""Fleets small enough to be counted by hand: a step takes one second, whatever is in it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    ContractPolicy,
    KVLimits,
    TenantPolicy,
)
from dataplane.record import RequestRecord
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.arrivals import Regular
from dataplane.simulation.call import Call, Caller
from dataplane.simulation.clients import PATIENT, ClientBehaviour
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.distributions import Constant, Distribution
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import AllRecords
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import FleetScenario, name_replicas
from dataplane.simulation.gateway_bounds import GatewayBounds
from dataplane.simulation.phased_replicas import PhasePlan
from dataplane.simulation.traffic import TrafficSpec

ONE_SECOND = LinearCost(iteration=1.0, per_prompt_token=0, per_decode_step=0)
ALL = ClassPolicy(name="all")


def small_fleet(
    num_replicas: int = 1,
    max_num_seqs: int = 4,
    classes: Sequence[ClassPolicy] = (ALL,),
    contract: ContractPolicy | None = None,
    num_gateways: int = 1,
    cold_start: ColdStart | None = None,
    max_active: int | None = None,
    traffic: Sequence[TrafficSpec] = (),
    duration: float = 100.0,
    is_prefix_caching: bool = False,
    max_model_len: int = 100,
    num_blocks: int = 200,
    phases: PhasePlan | None = None,
    kv: KVLimits | None = None,
    terms: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Fleet, AllRecords]:
    """With records of all requests; nobody calls unless `traffic` says so."""
    scheduler = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=100,
        max_model_len=max_model_len,
        num_blocks=num_blocks,
        block_size=4,
        is_prefix_caching=is_prefix_caching,
    )
    records = AllRecords()
    fleet = Fleet(
        FleetScenario(
            name="small",
            seed=1,
            duration=duration,
            replicas=tuple(
                ReplicaSpec(
                    replica_id=name,
                    scheduler=scheduler,
                    cost=ONE_SECOND,
                    cold_start=cold_start or ColdStart(),
                    starts_at=None if cold_start is None else 0.0,
                )
                for name in name_replicas(num_replicas)
            ),
            phases=phases,
            policy=AdmissionPolicyTerms(
                revision="small@1",
                classes=tuple(classes),
                max_active_per_replica=max_active,
                kv=kv,
                **terms,
            ),
            contract=contract,
            tenants=(TenantPolicy(name="gold", tier="gold"),),
            traffic=tuple(traffic),
            num_gateways=num_gateways,
            bounds=GatewayBounds(surplus_slots=0),
            max_drain_seconds=1000,
        ),
        records,
    )
    fleet.begin()
    return fleet, records


def call(
    num_output_tokens: int = 3,
    num_prompt_tokens: int = 5,
    client: ClientBehaviour = PATIENT,
    max_tokens: int | None = None,
    tenant: str = "default",
    is_stream: bool = True,
) -> Call:
    """One call."""
    caller = Caller(tenant=tenant, client=client, headers={}, is_stream=is_stream)
    return Call(caller, range(num_prompt_tokens), range(num_output_tokens), max_tokens)


def steady(
    every: float,
    name: str = "steady",
    output: Distribution | None = None,
    client: ClientBehaviour = PATIENT,
) -> TrafficSpec:
    """A call every so many seconds."""
    return TrafficSpec(
        name=name,
        process=Regular(every),
        callers=[(Caller(tenant="default", client=client, headers={}), 1.0)],
        prompt=Constant(5),
        output=output or Constant(3),
    )


def in_order(records: AllRecords) -> list[RequestRecord]:
    """Of all, by arrival."""
    return sorted(records.taken, key=lambda record: record.request_id.rpartition("-")[2].zfill(9))
