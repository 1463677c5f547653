"""Finding the metrics page of one address."""

from dataclasses import dataclass

import httpx

from controlplane.diagnosis.sources.live.address import Address, beside, shown
from controlplane.diagnosis.sources.live.failures import NoMetricsError, Try
from controlplane.diagnosis.sources.live.page import (
    SCRAPE_SECONDS,
    NoPageError,
    PageError,
    UnknownHostError,
    get_page,
    read_json,
)
from dataplane.engine_metrics.exposition import ExpositionReader, NotMetricsError

_SHOWN = 160
_MOST_MODELS = 4


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """Where metrics are."""

    address: Address
    url: httpx.URL
    text: str
    """As it was first answered."""


async def find_metrics(
    http: httpx.AsyncClient, address: Address, *, seconds: float = SCRAPE_SECONDS
) -> MetricsPage:
    """The first of its addresses that answers metrics. Raises NoMetricsError with all that was
    tried."""
    tries: list[Try] = []
    for url in address.metrics:
        found = await _try(http, address, url, tries, seconds)
        if found is not None:
            return found
        if tries[-1].is_host_unknown or tries[-1].is_late:
            break  # another path of the same server fares no better
    for model in await _models(http, address) if _wants_model(tries) else ():
        url = address.metrics[0].copy_merge_params({"model": model})
        found = await _try(http, address, url, tries, seconds)
        if found is not None:
            return found
    raise NoMetricsError(shown(address.root), tries)


async def _try(
    http: httpx.AsyncClient, address: Address, url: httpx.URL, tries: list[Try], seconds: float
) -> MetricsPage | None:
    try:
        answer = await get_page(http, url, seconds=seconds)
        if not answer.is_success:
            begins = " ".join(answer.text.split())[:_SHOWN]
            told = f"{answer.status} {begins}".strip()
            tries.append(Try(shown(url), told, answer.status, answer.kind))
            return None
        page = ExpositionReader().read(answer.text, shown(url))
    except NotMetricsError as error:
        told = f"{error.what}, not a metrics page"
        tries.append(Try(shown(url), told, answer.status, f"{answer.kind}, not a metrics page"))
        return None
    except PageError as error:
        tries.append(
            Try(
                shown(url),
                error.in_full if isinstance(error, NoPageError) else str(error),
                kind=str(error),
                is_no_page=isinstance(error, NoPageError),
                is_host_unknown=isinstance(error, UnknownHostError),
                is_late=error.is_late,
                is_refused=error.is_refused,
            )
        )
        return None
    if not page.samples:
        tries.append(Try(shown(url), "an empty page", answer.status, "an empty page"))
        return None
    return MetricsPage(address, url, answer.text)


def _wants_model(tries: list[Try]) -> bool:
    """llama.cpp with several models asks for one, by a 400."""
    return any(each.answer.startswith("400 ") and "model" in each.answer for each in tries)


async def _models(http: httpx.AsyncClient, address: Address) -> list[str]:
    try:
        answer = read_json(await get_page(http, beside(address, "/v1/models")))
    except (PageError, ValueError):
        return []
    listed = answer.get("data") if isinstance(answer, dict) else None
    models = [each for each in listed or () if isinstance(each, dict) and each.get("id")]
    models.sort(key=lambda each: _status(each) != "loaded")
    return [str(each["id"]) for each in models[:_MOST_MODELS]]


def _status(model: dict[str, object]) -> object:
    status = model.get("status")
    return status.get("value") if isinstance(status, dict) else status
