"""What the scenarios share: replicas whose capacity is known, and a gateway before them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from ops.hostile.calls import Call, Clients
from ops.hostile.outcome import Outcome
from ops.hostile.place import Place
from ops.hostile.records import find_gaps, read_records
from ops.hostile.scrapes import Scraper, scraping

STEP_SECONDS = 0.01
NUM_SEQUENCES = 4
"""That one replica runs at once."""
NUM_TOKENS = 20
"""Of an answer."""
SERVICE_SECONDS = (NUM_TOKENS + 1) * STEP_SECONDS
"""Of one request that does not wait, about."""


def simulator(**changes: Any) -> Mapping[str, Any]:
    """Settings of replicas whose steps take the same, whatever is in them."""
    cost = {"per_prompt_token": 0.0, "per_decode_step": 0.0, "per_context_token": 0.0}
    return {
        "max_num_seqs": NUM_SEQUENCES,
        "num_blocks": 2048,
        "cost_model_ms": {"iteration": STEP_SECONDS * 1000} | cost,
    } | changes


def capacity(num_replicas: int) -> float:
    """Requests that they serve in a second, at most."""
    return num_replicas * NUM_SEQUENCES / SERVICE_SECONDS


def call(number: int, **fields: Any) -> Call:
    """A call that no other is like."""
    prompt = f"Call {number} of {fields.get('tenant', 'nobody')} {fields.get('kind', '')}"
    defaults: dict[str, Any] = {"prompt": prompt, "max_tokens": NUM_TOKENS}
    return Call(**defaults | fields)


@asynccontextmanager
async def clients_of(place: Place, outcome: Outcome) -> AsyncIterator[tuple[Clients, Scraper]]:
    """Clients of the gateway, which is scraped meanwhile. At the end nothing may be held, every
    call must have one record, and every scrape must have balanced."""
    address = place.status.address
    url = urlsplit(address)
    clients = Clients(url.hostname or "", url.port or 0)
    async with scraping(address) as scraper:
        yield clients, scraper
    records = read_records(place.state_dir)
    outcome.add_wrong(scraper.wrong)
    outcome.add_wrong(find_gaps(records))
    outcome.expect(
        len(records) == len(clients.calls),
        f"{len(clients.calls)} calls have a record each, {len(records)} are there",
    )
    outcome.figures["num_calls"] = len(clients.calls)
    outcome.figures["num_scrapes"] = scraper.num_scrapes
    outcome.figures["rejected"] = dict(scraper.rejected)
