"""The simulator's settings, as an EngineConfig document gives them."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dataplane import engine_settings
from dataplane.byte_size import parse_size
from dataplane.ledger import MemoryLedger
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.distributions import Constant, Distribution, LogNormal

ENGINE = "simulator"

_DEFAULT_NUM_BLOCKS = 1024
_DEFAULT_MAX_MODEL_LEN = 4096
_DEFAULT_PREFILL_TOKENS_PER_STEP = 2048
_MAX_MS = 3_600_000.0
_MS = Annotated[float, Field(ge=0, le=_MAX_MS, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]
_Size = Annotated[int, BeforeValidator(parse_size)]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class StepCost(_Group):
    """What each part of a step's work takes, in milliseconds; round numbers, of no real machine."""

    iteration: _MS = 5.0
    """Of every step."""
    per_prompt_token: _MS = 0.05
    per_decode_step: _MS = 0.2
    per_reread_token: _MS = 0.0
    """Of each token before the start of a continued prefill: its KV is read again."""
    per_context_token: _MS = 0.0005
    """Of each token that a decode step attends to."""

    def to_cost(self) -> LinearCost:
        """The same in seconds."""
        return LinearCost(**{name: getattr(self, name) / 1000 for name in type(self).model_fields})


class OutputTokens(_Group):
    """How long answers are, their end token included: `constant`, or around `median`."""

    constant: int | None = Field(default=None, ge=1)
    median: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    sigma: float | None = Field(default=None, ge=0, le=5)
    """Of the logarithm: half of the answers are within a factor of exp(0.67 sigma)."""
    most: int | None = Field(default=None, ge=1)
    """No answer is longer."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.constant is None) == (self.median is None):
            raise ValueError("give constant, or median with sigma")
        if self.constant is not None and (self.sigma, self.most) != (None, None):
            raise ValueError("sigma and most belong to median; constant varies around nothing")
        if self.median is not None and self.sigma is None:
            raise ValueError("median needs sigma; 0.7 is usual for chats, 0 is no variation")
        return self

    def to_distribution(self) -> Distribution:
        """What lengths are drawn from."""
        if self.median is None or self.sigma is None:
            return Constant(float(self.constant or 1))
        most = math.inf if self.most is None else float(self.most)
        return LogNormal(median=self.median, sigma=self.sigma, most=most)


class StartSeconds(_Group):
    """How long each stage of a start takes beyond what it really does."""

    acquire: _Seconds = 0.0
    load: _Seconds = 0.0
    compile: _Seconds = 0.0
    """Told as part of loading."""
    warm_up: _Seconds = 0.0


class Memory(_Group):
    """A device whose memory ledger is told. Sizes are such as 14GiB."""

    weights: _Size
    kv_per_token: _Size
    """Keys and values of one token over all layers."""
    workspace: _Size | None = None
    reserve: _Size | None = None
    device: _Size | None = None
    """All of it. None: what the lines above and the pool need."""


class SimulatorSettings(_Group):
    """What a replica of the simulator may be told."""

    max_num_seqs: int = Field(default=32, ge=1, le=4096)
    max_prefill_tokens_per_step: int = Field(default=_DEFAULT_PREFILL_TOKENS_PER_STEP, ge=1)
    """Prompt tokens of one step: how long a prompt may hold up decodes."""
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    """Tokens of one step. None: a decode for every sequence, and the prompt tokens above."""
    max_model_len: int | None = Field(default=None, ge=2)
    """Prompt plus output tokens of one sequence. None: what the KV pool holds, at most 4096."""
    block_size: int = Field(default=16, ge=1, le=256)
    """Tokens of a KV block."""
    num_blocks: int | None = Field(default=None, ge=1, le=10_000_000)
    """Of the KV pool. None: what fits memory.device, or 1024."""
    prefix_caching: bool = True
    memory: Memory | None = None
    """None: no ledger is told."""
    cost_model_ms: StepCost = StepCost()
    """What a step takes; not used beside `fit`."""
    fit: str | None = None
    """What steps, and the stages of a start, take instead: path of a document that `pilothouse
    fit` wrote, absolute, on the machine that runs the replica."""
    noise: Literal["on", "off"] = "on"
    """Whether steps vary as those that were fitted; each replica draws by itself."""
    start_seconds: StartSeconds | None = None
    """None: as the fit says, else at once."""
    output_tokens: OutputTokens = OutputTokens(median=100.0, sigma=0.7)
    time_scale: float = Field(default=1.0, gt=0, le=1000, allow_inf_nan=False)
    """All that is waited for, times this: 0.1 is ten times as fast."""
    seed: int = Field(default=0, ge=0)
    """Of what no request seeds: answers, and the noise of a fit."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.fit is not None:
            if "cost_model_ms" in self.model_fields_set:
                raise ValueError("give fit or cost_model_ms, not both")
            if not Path(self.fit).is_absolute():
                raise ValueError("fit must be an absolute path: replicas start elsewhere")
        elif self.noise == "off":
            raise ValueError("noise is of a fit, and cost_model_ms has none; leave out noise")
        self.bounds()
        self.ledger_lines()
        return self

    @property
    def pool_blocks(self) -> int:
        """Blocks of the KV pool."""
        if self.num_blocks is not None:
            return self.num_blocks
        if self.memory is None or self.memory.device is None:
            return _DEFAULT_NUM_BLOCKS
        return self._ledger(self.memory, self.memory.device).num_blocks_that_fit

    def bounds(self) -> SchedulerConfig:
        """What the scheduler keeps. Raises ValueError for what could never run."""
        num_blocks = self.pool_blocks
        if num_blocks < 1:
            raise ValueError(
                "no KV block fits into memory.device; raise it, or lower the other lines"
            )
        num_slots = num_blocks * self.block_size
        if self.max_model_len is not None and self.max_model_len > num_slots:
            raise ValueError(
                f"max_model_len is {self.max_model_len}, but the KV pool holds {num_slots} "
                f"tokens; raise num_blocks or lower max_model_len"
            )
        return SchedulerConfig(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens
            or self.max_num_seqs + self.max_prefill_tokens_per_step,
            max_model_len=self.max_model_len or min(_DEFAULT_MAX_MODEL_LEN, num_slots),
            num_blocks=num_blocks,
            block_size=self.block_size,
            max_prefill_tokens_per_step=self.max_prefill_tokens_per_step,
        )

    def ledger_lines(self) -> Mapping[str, int] | None:
        """Bytes by line, as the native engine tells them. Raises ValueError for a pool that does
        not fit."""
        memory = self.memory
        if memory is None:
            return None
        ledger = self._ledger(memory, memory.device or 0)
        if memory.device is None:
            needed = ledger.committed_bytes + self.pool_blocks * ledger.bytes_per_block
            ledger = self._ledger(memory, needed)
        return ledger.lines(self.pool_blocks)

    def _ledger(self, memory: Memory, device_bytes: int) -> MemoryLedger:
        return MemoryLedger(
            device_bytes=device_bytes,
            weights_bytes=memory.weights,
            workspace_bytes=memory.workspace or 0,
            reserve_bytes=memory.reserve or 0,
            kv_bytes_per_token=memory.kv_per_token,
            block_size=self.block_size,
        )


def parse_settings(settings: Mapping[str, Any]) -> SimulatorSettings:
    """Raises ValueError naming every key that is wrong."""
    return engine_settings.parse_settings(SimulatorSettings, settings)


def check_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (key, what is wrong and the remedy); the key is "" for several together."""
    return engine_settings.check_settings(SimulatorSettings, settings)
