"""Do clients that nobody here wrote get along with the gateway?

The openai client, locust and guidellm, each of a pinned version in an environment of its own (made
once, under --environments), visit a gateway before two replicas of the simulator. Each must find
what it came for; meanwhile every scrape must balance, and at the end nothing may be held. Exit
code 1 when anything is not so.

    .venv/bin/python ops/bench/foreign_clients.py
    .venv/bin/python ops/bench/foreign_clients.py --only guidellm
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, TenantLimits, TenantPolicy
from ops.foreign.visits import visit_guidellm, visit_locust, visit_openai
from ops.hostile.outcome import Outcome
from ops.hostile.place import Place, open_place
from ops.hostile.records import find_gaps, read_records
from ops.hostile.scrapes import scraping
from ops.hostile.setting import simulator

Visit = Callable[[str, Path, Path, Outcome], None]
VISITS: Mapping[str, Visit] = {
    "openai": visit_openai,
    "locust": visit_locust,
    "guidellm": visit_guidellm,
}
_TERMS = AdmissionPolicyTerms(
    revision="foreign@1",
    classes=(ClassPolicy(name="all", max_queue=128, deadline_seconds=30.0),),
    max_active_per_replica=8,
    tenants={"small": TenantLimits(max_concurrent=1)},
)


def main() -> None:
    options = _parse()
    is_well = True
    with tempfile.TemporaryDirectory(prefix="foreign-") as scratch:
        for name in options.only or VISITS:
            outcome = _receive(Path(scratch) / name, VISITS[name], options.environments)
            is_well &= not outcome.wrong
            print(f"{name}: {'NOT WELL' if outcome.wrong else 'well'}")
            for figure, value in outcome.figures.items():
                print(f"  {figure}: {value}")
            for line in outcome.wrong:
                print(f"  WRONG: {line}")
    sys.exit(not is_well)


def _receive(folder: Path, visit: Visit, environments: Path) -> Outcome:
    outcome = Outcome()
    with open_place(folder) as place:
        replicas = place.start_replicas(2, simulator(max_num_seqs=8))
        addresses = {each.replica_id: each.address for each in replicas}
        place.start_gateway(_TERMS, addresses, (TenantPolicy(name="small"),))
        asyncio.run(_watch(place, visit, environments, outcome))
        outcome.add_wrong(find_gaps(read_records(place.state_dir)))
    return outcome


async def _watch(place: Place, visit: Visit, environments: Path, outcome: Outcome) -> None:
    async with scraping(place.status.address) as scraper:
        await asyncio.to_thread(visit, place.status.address, environments, place.folder, outcome)
    outcome.add_wrong(scraper.wrong)
    outcome.figures["scrapes"] = scraper.num_scrapes


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=VISITS, help="may be repeated")
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path(tempfile.gettempdir()) / "pilothouse-foreign",
        help="where the clients are installed, and stay",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
