"""The native engine's settings, as an EngineConfig document gives them. Imports no torch."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from dataplane import engine_settings
from dataplane.byte_size import parse_size

ENGINE = "paged"

_DEFAULT_MAX_MODEL_LEN = 4096
_CPU_PREFILL_TOKENS_PER_STEP = 128
_CUDA_PREFILL_TOKENS_PER_STEP = 4096

DType = Literal["float32", "bfloat16"]
Device = Literal["cpu", "cuda"]


class PagedSettings(BaseModel):
    """What a replica of the native engine may be told."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    dtype: DType = "float32"
    """Of weights and KV. CPUs without bfloat16 instructions are slower with bfloat16."""
    device: Literal["cpu", "cuda", "auto"] = "auto"
    """auto: CUDA where there is a GPU."""
    block_size: int = Field(default=16, ge=1, le=256)
    """Tokens of a KV block."""
    max_num_seqs: int = Field(default=32, ge=1, le=1024)
    max_prefill_tokens_per_step: int | None = Field(default=None, ge=1)
    """Prompt tokens of one step: how long a prompt may hold up decodes. None: 128 on a CPU,
    4096 on CUDA."""
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    """Tokens of one step. None: a decode for every sequence, and the prompt tokens above."""
    max_model_len: int | None = Field(default=None, ge=2)
    """Prompt plus output tokens of one sequence. None: what model and KV pool allow, at most
    4096."""
    kv_memory: str | None = None
    """Size of the KV pool, such as 512MiB. None: what the memory ledger leaves."""
    prefix_caching: bool = True
    num_threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads of the engine. None: torch decides."""

    @field_validator("kv_memory")
    @classmethod
    def _check_size(cls, value: str | None) -> str | None:
        if value is not None:
            parse_size(value)
        return value

    @model_validator(mode="after")
    def _check_budget(self) -> "PagedSettings":
        if self.max_num_batched_tokens is not None and (
            self.max_num_batched_tokens < self.max_num_seqs
        ):
            raise ValueError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, but each of "
                f"max_num_seqs = {self.max_num_seqs} sequences decodes one token a step; "
                f"raise the first or lower the second"
            )
        return self

    @property
    def kv_memory_bytes(self) -> int | None:
        """The configured size of the KV pool."""
        return None if self.kv_memory is None else parse_size(self.kv_memory)

    def prefill_tokens_per_step(self, device: Device) -> int:
        """The bound on prompt tokens of one step on `device`."""
        if self.max_prefill_tokens_per_step is not None:
            return self.max_prefill_tokens_per_step
        return _CPU_PREFILL_TOKENS_PER_STEP if device == "cpu" else _CUDA_PREFILL_TOKENS_PER_STEP

    def batched_tokens(self, device: Device) -> int:
        """The bound on tokens of one step on `device`."""
        if self.max_num_batched_tokens is not None:
            return self.max_num_batched_tokens
        return self.max_num_seqs + self.prefill_tokens_per_step(device)

    def wanted_model_len(self, context_length: int) -> int:
        """Prompt plus output tokens of a sequence, before the KV pool is known.

        Raises ValueError when the settings ask for more than the model was trained for.
        """
        if self.max_model_len is None:
            return min(context_length, _DEFAULT_MAX_MODEL_LEN)
        if self.max_model_len > context_length:
            raise ValueError(
                f"settings.max_model_len is {self.max_model_len}, but the model's context is "
                f"{context_length} tokens; lower it"
            )
        return self.max_model_len


def parse_settings(settings: Mapping[str, Any]) -> PagedSettings:
    """Raises ValueError naming every key that is wrong."""
    return engine_settings.parse_settings(PagedSettings, settings)


def check_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (key, what is wrong and the remedy); the key is "" for several together."""
    return engine_settings.check_settings(PagedSettings, settings)
