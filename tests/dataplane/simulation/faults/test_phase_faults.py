"""A split that does not fit the traffic, and a link that narrows, in a fleet of two phases."""

from dataplane.policy import AdmissionPolicyTerms, ClassPolicy
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.arrivals import Poisson, Regular
from dataplane.simulation.call import Caller
from dataplane.simulation.clients import PATIENT
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.distributions import Constant
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.fleet_faults import FleetFaults
from dataplane.simulation.faults.placement import TransferLimit, WrongPhaseSplit
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import FleetScenario, name_replicas
from dataplane.simulation.phase_split import Phase, PhaseSplit
from dataplane.simulation.phased_replicas import PhasedReplicas, PhasePlan
from dataplane.simulation.traffic import TrafficSpec
from tests.dataplane.simulation.golden_cases import load_golden

GOLDEN = load_golden("mechanisms.yaml")
GIGA = 10**9
PROMPT = 1000


def phased_fleet(
    *faults: Fault,
    prefill: int = 4,
    decode: int = 4,
    rate: float = 10.0,
    gigabits_per_second: float = 400.0,
    duration: float = 30.0,
    is_regular: bool = False,
) -> Fleet:
    """A prompt takes 0.15 s and is 1 GB of KV; an answer takes 0.5 s and more on a decode
    replica, which decodes eight at once."""
    scheduler = SchedulerConfig(
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        max_model_len=4096,
        num_blocks=100_000,
        block_size=16,
        is_prefix_caching=False,
    )
    cost = LinearCost(iteration=0.01, per_prompt_token=0.00014, per_decode_step=0.002)
    fleet = Fleet(
        FleetScenario(
            name="phased",
            seed=3,
            duration=duration,
            replicas=tuple(
                ReplicaSpec(replica_id=name, scheduler=scheduler, cost=cost)
                for name in name_replicas(prefill + decode)
            ),
            phases=PhasePlan(
                split=PhaseSplit(prefill=prefill, decode=decode),
                bits_per_second=gigabits_per_second * GIGA,
                bytes_per_token=GIGA / PROMPT,
            ),
            policy=AdmissionPolicyTerms(revision="p@1", classes=(ClassPolicy(name="all"),)),
            traffic=(
                TrafficSpec(
                    name="t",
                    process=Regular(1 / rate) if is_regular else Poisson(rate),
                    callers=[(Caller(tenant="a", client=PATIENT, headers={}), 1.0)],
                    prompt=Constant(PROMPT),
                    output=Constant(50),
                ),
            ),
        )
    )
    FleetFaults(FaultPlan(faults), fleet)
    return fleet


def phases_of(fleet: Fleet) -> PhasedReplicas:
    assert fleet.phases is not None
    return fleet.phases


def times(*faults: Fault) -> dict[str, float]:
    """The median TTFT and TPOT of a run, and how many waited between the phases at most."""
    fleet = phased_fleet(*faults)
    results = fleet.run()
    spreads = results.quantiles(results.by_class["all"], (0.5,))
    found = {name: value for name, [value] in spreads.items() if value is not None}
    return {**found, "between": phases_of(fleet).counts.max_num_waiting}


def test_too_few_prefill_replicas_delay_first_tokens_and_not_those_behind_them() -> None:
    planned, short = times(), times(WrongPhaseSplit(intensity=0.75, short=Phase.PREFILL))
    assert short["ttft"] > 10 * planned["ttft"]
    assert short["tpot"] < 1.2 * planned["tpot"]
    assert short["between"] == 0


def test_too_few_decode_replicas_let_requests_wait_between_the_phases() -> None:
    planned, short = times(), times(WrongPhaseSplit(intensity=0.75, short=Phase.DECODE))
    assert short["tpot"] > 3 * planned["tpot"]
    assert short["ttft"] < 1.2 * planned["ttft"]
    assert short["between"] > 10 * (1 + planned["between"])


def test_a_split_is_wrong_while_the_fault_lasts() -> None:
    fleet = phased_fleet(WrongPhaseSplit(at=10, duration=20, intensity=0.5, short=Phase.DECODE))
    phases, seen = phases_of(fleet), []
    for at in (9, 11, 29, 31):
        fleet.run_until(at)
        seen.append(sum(phases.phase_of(each) is Phase.PREFILL for each in fleet.replicas))
    assert seen == [4, 6, 6, 4]
    fleet.run()
    fleet.check_integrity()


def test_kv_that_exceeds_the_link_piles_up_by_what_is_offered_above_it() -> None:
    case = GOLDEN["kv_transfer"]
    given, expect = case["given"], case["expect"]
    fleet = phased_fleet(
        prefill=8,
        decode=32,
        rate=given["requests_per_s"],
        gigabits_per_second=given["link_gbit_per_s"],
        is_regular=True,
    )
    link = phases_of(fleet).link
    fleet.run_until(3.0)
    before = link.backlog_bits
    fleet.run_until(13.0)
    assert round((link.backlog_bits - before) / GIGA / 10, 9) == expect["over_by_gbit_per_s"]
    num_before = phases_of(fleet).counts.num_transfers
    fleet.run_until(29.0)
    sent = (phases_of(fleet).counts.num_transfers - num_before) / 16
    assert sent == GOLDEN["kv_transfer_limit"]["sustainable_requests_per_s"]


def test_a_link_that_narrows_lets_kv_pile_up_and_a_wide_one_drains_it() -> None:
    limit = TransferLimit(at=10, duration=10, intensity=15)
    fleet = phased_fleet(limit, rate=10.0)
    link = phases_of(fleet).link
    backlogs = []
    for at in (9.9, 20, 40):
        fleet.run_until(at)
        backlogs.append(link.backlog_bits / GIGA)
    assert backlogs[0] < 40 < 200 < backlogs[1]
    assert backlogs[2] < 40
    fleet.run()
    fleet.check_integrity()


def test_twice_the_replicas_in_the_old_ratio_leave_the_same_phase_short() -> None:
    golden = GOLDEN["phase_split"]
    given, (prefill, decode) = golden["given"], golden["expect"]["doubling_both"]
    planned = PhaseSplit(prefill=given["prefill"], decode=given["decode"])
    assert planned.scaled(2) == PhaseSplit(prefill=prefill, decode=decode)
    for split, rate in ((planned, 20.0), (planned.scaled(2), 40.0)):
        fleet = phased_fleet(prefill=split.prefill, decode=split.decode, rate=rate)
        fleet.run_until(15)
        assert fleet.gateways[0].queue.num_waiting > 50
        assert phases_of(fleet).counts.max_num_waiting == 0


def test_no_intensity_is_no_fault_and_the_same_seed_is_the_same_run() -> None:
    def checksum(*faults: Fault) -> str:
        columns = phased_fleet(*faults).run().columns
        assert columns is not None
        return columns.checksum()

    planned = checksum()
    assert checksum(WrongPhaseSplit(intensity=0), TransferLimit(intensity=0)) == planned
    wrong = checksum(WrongPhaseSplit(at=5, intensity=0.5), TransferLimit(at=5, intensity=7))
    assert wrong != planned
    assert wrong == checksum(WrongPhaseSplit(at=5, intensity=0.5), TransferLimit(at=5, intensity=7))
