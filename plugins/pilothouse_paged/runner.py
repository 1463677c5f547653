"""Owns the device: loads the model, sizes and holds the KV cache, and runs steps.

How the KV pool gets its size: the weights are measured as they lie in memory; the largest
step the settings allow runs through one layer, which peaks where all layers peak, and
what it took is the workspace; a reserve covers what that cannot foresee. The rest of the
budget is KV.
"""

from collections.abc import Iterable
from pathlib import Path

import torch

from dataplane.clock import monotonic_clock
from dataplane.ledger import GIB, MemoryLedger, ModelShape, num_blocks_for
from pilothouse_paged.artifact import open_artifact
from pilothouse_paged.attention import DecodeAttention, attend_decodes
from pilothouse_paged.batch import Chunk, lay_out
from pilothouse_paged.memory import available_bytes, measure_peak_bytes
from pilothouse_paged.model import LlamaModel
from pilothouse_paged.settings import Device, PagedSettings
from pilothouse_paged.shape import LlamaShape
from pilothouse_paged.weights import load_weights

_RESERVE_SHARE = 0.05  # of what the model takes, for what one measurement does not show
_CPU_MAX_POOL_BYTES = GIB
_CPU_POOL_SHARE = 0.25  # of the memory that is free: a laptop stays usable
_CUDA_SHARE = 0.9
_WARM_UP_TOKENS = 4


class Runner:
    """The model on its device. One thread uses it."""

    def __init__(
        self,
        model: LlamaModel,
        kv_cache: torch.Tensor,
        ledger: MemoryLedger,
        max_model_len: int,
        compile_seconds: float | None = None,
    ) -> None:
        """`kv_cache` is [layers, 2, num_blocks, block_size, num_kv_heads, head_dim].
        `compile_seconds`: what compiling its kernels took; None: there is nothing to compile."""
        self.max_model_len = max_model_len
        self.compile_seconds = compile_seconds
        self.ledger_lines = ledger.lines(kv_cache.shape[2])
        self._model = model
        self._kv_cache = kv_cache

    @property
    def shape(self) -> LlamaShape:
        """The model's."""
        return self._model.shape

    @property
    def device_kind(self) -> Device:
        """Where the model lies."""
        return _device_kind(self._kv_cache.device)

    @property
    def num_blocks(self) -> int:
        """Of the KV pool."""
        return self._kv_cache.shape[2]

    @torch.inference_mode()
    def run(self, chunks: Iterable[Chunk]) -> tuple[tuple[int, ...], torch.Tensor]:
        """Compute the chunks' KV. Returns the ids of sequences that select, and their logits.

        Logits are float32 [selecting sequences, vocab_size]. Running the same chunks again
        writes the same KV again.
        """
        batch = lay_out(chunks, self._kv_cache.shape[3], self._kv_cache.device)
        return batch.selecting_ids, self._model.forward(batch, self._kv_cache)

    def warm_up(self) -> None:
        """A short prefill and a decode, into a block that nobody owns yet."""
        prompt = (0,) * min(_WARM_UP_TOKENS, self._kv_cache.shape[3])
        for is_decode in (False, True):
            tokens = (0,) if is_decode else prompt
            start = len(prompt) - 1 if is_decode else 0
            self.run([_chunk(tokens, start, [0], is_decode)])


def load_runner(path: Path, settings: PagedSettings) -> Runner:
    """Raises OSError, and ValueError with the remedy for what cannot work."""
    device = choose_device(settings)
    if settings.num_threads is not None:
        torch.set_num_threads(settings.num_threads)
    shape, source = open_artifact(path)
    settings.wanted_model_len(shape.context_length)  # refuses before the long part
    weights = load_weights(source, shape, getattr(torch, settings.dtype), device)
    return build_runner(LlamaModel(shape, weights, _choose_decode_attention(device)), settings)


def build_runner(model: LlamaModel, settings: PagedSettings) -> Runner:
    """Compile, measure what a step takes, and give the rest of the budget to KV.

    Raises ValueError when that is too little for what the settings ask.
    """
    compile_seconds = _compile(model, settings)
    wanted_model_len = settings.wanted_model_len(model.shape.context_length)
    ledger = make_ledger(model, settings, measure_workspace(model, settings, wanted_model_len))
    num_blocks = ledger.num_blocks_that_fit
    max_model_len = _fit_model_len(settings, wanted_model_len, num_blocks)
    cache = _empty_cache(model, num_blocks, settings)
    return Runner(model, cache, ledger, max_model_len, compile_seconds)


def choose_device(settings: PagedSettings) -> torch.device:
    """Raises ValueError when CUDA is asked for and there is none."""
    has_cuda = torch.cuda.is_available()
    if settings.device == "cuda" and not has_cuda:
        raise ValueError(
            "settings.device is cuda, but torch finds no GPU; set it to cpu, or install a "
            "driver and a torch build for it"
        )
    return torch.device("cuda" if has_cuda and settings.device != "cpu" else "cpu")


@torch.inference_mode()
def measure_workspace(model: LlamaModel, settings: PagedSettings, max_model_len: int) -> int:
    """Bytes that the largest step takes beside weights and KV.

    Every sequence of it has the longest context. All block tables name one block again and
    again, so that this needs no pool.
    """
    device = model.weights.embedding.device
    cache = _empty_cache(model, 1, settings)[:1]
    table = [0] * num_blocks_for(max_model_len, settings.block_size)
    kind = _device_kind(device)
    num_decodes = settings.max_num_seqs - 1
    num_prompt_tokens = min(
        settings.prefill_tokens_per_step(kind),
        settings.batched_tokens(kind) - num_decodes,
        max_model_len,
    )
    decode = _chunk((0,), max_model_len - 1, table, True)
    prefill = _chunk((0,) * num_prompt_tokens, max_model_len - num_prompt_tokens, table, False)

    def step() -> None:
        batch = lay_out([decode] * num_decodes + [prefill], settings.block_size, device)
        model.forward(batch, cache, num_layers=1)

    return measure_peak_bytes(step, device)


def make_ledger(model: LlamaModel, settings: PagedSettings, workspace_bytes: int) -> MemoryLedger:
    """The device's memory by line. With `kv_memory` set, the pool gets exactly that."""
    device = model.weights.embedding.device
    weights_bytes = model.weights.num_bytes
    reserve_bytes = int(_RESERVE_SHARE * (weights_bytes + workspace_bytes))
    fixed_bytes = weights_bytes + workspace_bytes + reserve_bytes
    if settings.kv_memory_bytes is not None:
        device_bytes = fixed_bytes + settings.kv_memory_bytes
    elif device.type == "cuda":
        device_bytes = int(_CUDA_SHARE * torch.cuda.get_device_properties(device).total_memory)
    else:
        pool_bytes = min(_CPU_MAX_POOL_BYTES, int(_CPU_POOL_SHARE * available_bytes(device)))
        device_bytes = fixed_bytes + pool_bytes
    shape = model.shape
    kv_shape = ModelShape(
        num_layers=shape.num_layers,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        bytes_per_kv_element=model.weights.embedding.element_size(),
    )
    return MemoryLedger(
        device_bytes=device_bytes,
        weights_bytes=weights_bytes,
        workspace_bytes=workspace_bytes,
        reserve_bytes=reserve_bytes,
        kv_bytes_per_token=kv_shape.kv_bytes_per_token(),
        block_size=settings.block_size,
    )


def _fit_model_len(settings: PagedSettings, wanted: int, num_blocks: int) -> int:
    """What one sequence may have: never more than the whole pool holds."""
    num_slots = num_blocks * settings.block_size
    if num_blocks < 1:
        raise ValueError(
            "no KV block fits into memory; raise settings.kv_memory, or give the engine a "
            "device with more memory"
        )
    if settings.max_model_len is not None and settings.max_model_len > num_slots:
        raise ValueError(
            f"settings.max_model_len is {settings.max_model_len}, but the KV pool holds "
            f"{num_slots} tokens; raise settings.kv_memory or lower max_model_len"
        )
    return min(wanted, num_slots)


def _compile(model: LlamaModel, settings: PagedSettings) -> float | None:
    """Seconds of the first decode, in which triton compiles its kernel or finds it in its cache on
    disk, and the device's libraries start; None: a CPU compiles nothing."""
    device = model.weights.embedding.device
    if device.type != "cuda":
        return None
    started_at = monotonic_clock()
    run_first_decode(model, settings)
    torch.cuda.synchronize(device)
    return monotonic_clock() - started_at


@torch.inference_mode()
def run_first_decode(model: LlamaModel, settings: PagedSettings) -> None:
    """One token through one layer, in a block that is given back."""
    device = model.weights.embedding.device
    batch = lay_out([_chunk((0,), 0, [0], is_decode=True)], settings.block_size, device)
    model.forward(batch, _empty_cache(model, 1, settings)[:1], num_layers=1)


def _empty_cache(model: LlamaModel, num_blocks: int, settings: PagedSettings) -> torch.Tensor:
    shape = model.shape
    # Zeros, because masked slots are still multiplied by zero; on a CPU they take no memory
    # until they are written.
    return torch.zeros(
        (shape.num_layers, 2, num_blocks, settings.block_size, shape.num_kv_heads, shape.head_dim),
        dtype=model.weights.embedding.dtype,
        device=model.weights.embedding.device,
    )


def _device_kind(device: torch.device) -> Device:
    return "cuda" if device.type == "cuda" else "cpu"


def _choose_decode_attention(device: torch.device) -> DecodeAttention:
    if device.type != "cuda":
        return attend_decodes
    from pilothouse_paged.kernels.paged_decode import paged_decode

    return paged_decode


def _chunk(token_ids: tuple[int, ...], start: int, table: list[int], is_decode: bool) -> Chunk:
    return Chunk(
        sequence_id=0,
        token_ids=token_ids,
        start=start,
        block_table=table,
        selects_token=True,
        is_decode=is_decode,
    )
