"""What an engine says of itself beside its metrics: version, limits, slots. GET requests alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from controlplane.diagnosis.sources.live.address import Address, beside
from controlplane.diagnosis.sources.live.page import SCRAPE_SECONDS, PageError, get_page, read_json

Said = dict[str, object]
"""Key and value, as `sources.facts` reads them."""


@dataclass(frozen=True, slots=True)
class _Page:
    path: str
    read: Callable[[Any], Said]


def _version(answer: Any) -> Said:
    return {"version": answer["version"]} if isinstance(answer, Mapping) else {}


def _models(answer: Any) -> Said:
    said: Said = {}
    for model in answer["data"]:
        said.setdefault("model", model["id"])
        if model.get("max_model_len") is not None:
            said.setdefault("max_model_len", model["max_model_len"])
        if isinstance(model.get("meta"), Mapping) and "n_ctx_train" in model["meta"]:
            said.setdefault("n_ctx_train", model["meta"]["n_ctx_train"])
    return said


def _props(answer: Any) -> Said:
    settings = answer.get("default_generation_settings") or {}
    return _present(
        {
            "version": answer.get("build_info"),
            "slots": answer.get("total_slots"),
            "n_ctx": settings.get("n_ctx"),
            "model_path": answer.get("model_path"),
        }
    )


def _slots(answer: Any) -> Said:
    busy = [slot for slot in answer if slot.get("is_processing")]
    contexts = {slot.get("n_ctx") for slot in answer} - {None}
    said: Said = {"slots": len(answer), "slots_busy": len(busy)}
    if len(contexts) == 1:
        said["n_ctx_of_a_slot"] = contexts.pop()
    return said


_SGLANG_SETTINGS = (
    "version",
    "model_path",
    "context_length",
    "mem_fraction_static",
    "chunked_prefill_size",
    "max_running_requests",
    "max_total_tokens",
    "max_total_num_tokens",
    "page_size",
    "tp_size",
    "dp_size",
    "schedule_policy",
    "schedule_conservativeness",
    "disable_radix_cache",
    "disaggregation_mode",
    "kv_cache_dtype",
    "quantization",
    "speculative_algorithm",
)


def _server_info(answer: Any) -> Said:
    return _present({key: answer.get(key) for key in _SGLANG_SETTINGS})


def _model_info(answer: Any) -> Said:
    return _present({"model_path": answer.get("model_path")})


def _tgi_info(answer: Any) -> Said:
    keys = (
        "version",
        "model_id",
        "max_concurrent_requests",
        "max_input_tokens",
        "max_total_tokens",
        "max_batch_total_tokens",
        "max_waiting_tokens",
    )
    return _present({key: answer.get(key) for key in keys})


_MODELS = _Page("/v1/models", _models)
_VERSION = _Page("/version", _version)
_PAGES: Mapping[str, tuple[_Page, ...]] = {
    "vllm": (_VERSION, _MODELS),
    "sglang": (
        _Page("/server_info", _server_info),
        _Page("/get_server_info", _server_info),
        _Page("/model_info", _model_info),
        _MODELS,
    ),
    "llama.cpp": (_Page("/props", _props), _Page("/slots", _slots), _MODELS),
    "tgi": (_Page("/info", _tgi_info),),
    "trtllm": (_VERSION, _MODELS),
}
"""By engine. A page that is not there, or is not what is expected, tells nothing."""


@dataclass(slots=True)
class Description:
    """What it said so far, and which pages did not answer in time: a busy engine may later."""

    said: Said
    late: tuple[_Page, ...] = ()

    async def ask_again(
        self, http: httpx.AsyncClient, address: Address, *, seconds: float = SCRAPE_SECONDS
    ) -> None:
        """The late pages alone, until one is late again. What was said before stays."""
        answers, self.late = await _ask_pages(http, address, self.late, seconds)
        self.said = {**answers, **self.said}


async def ask(
    http: httpx.AsyncClient,
    address: Address,
    engine: str | None,
    *,
    seconds: float = SCRAPE_SECONDS,
) -> Description:
    """What the engine says of itself, and how it answers to GET /health; each page within
    `seconds`."""
    said, late = await _ask_pages(http, address, _PAGES.get(engine or "", ()), seconds)
    if engine in _PAGES:
        said["health"] = await _health(http, address)
    return Description(said, late)


async def _ask_pages(
    http: httpx.AsyncClient, address: Address, pages: tuple[_Page, ...], seconds: float
) -> tuple[Said, tuple[_Page, ...]]:
    """What they say, and those from the first on that is late: each further one would keep whoever
    asks waiting."""
    said: Said = {}
    for place, page in enumerate(pages):
        try:
            answer = read_json(await get_page(http, beside(address, page.path), seconds=seconds))
            said = {**page.read(answer), **said}
        except PageError as error:
            if error.is_late:
                return said, pages[place:]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return said, ()


async def _health(http: httpx.AsyncClient, address: Address) -> str:
    try:
        return str((await get_page(http, beside(address, "/health"))).status)
    except PageError as error:
        return f"no answer ({error})"


def _present(said: Said) -> Said:
    return {key: value for key, value in said.items() if value is not None}
