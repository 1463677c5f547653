"""What the tests of the host share: a small model file, its tokenizer, and requests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dataplane.engine import EngineRequest, SamplingParams
from dataplane.tokenizer import Tokenizer
from dataplane.tokenizer_loading import load_tokenizer
from tests.dataplane.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="session")
def tokenizer(model_path: Path) -> Tokenizer:
    return load_tokenizer(model_path)


@pytest.fixture(scope="session")
def make_request(tokenizer: Tokenizer) -> Callable[..., EngineRequest]:
    """A request that the echo engine answers with `text`, over and over."""

    def make(
        request_id: str = "r1",
        text: str = "abcdef",
        max_output_tokens: int = 4,
        stop: tuple[str, ...] = (),
        num_sequences: int = 1,
    ) -> EngineRequest:
        return EngineRequest(
            request_id=request_id,
            attempt=0,
            endpoint="/v1/completions",
            sampling=SamplingParams(
                max_output_tokens=max_output_tokens, stop=stop, num_sequences=num_sequences
            ),
            prompt_token_ids=tuple(tokenizer.encode(text, allow_special=False)),
        )

    return make
