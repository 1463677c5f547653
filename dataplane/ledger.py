"""The memory ledger: where a device's bytes go, and how many tokens and requests that leaves.

Everything that is not KV is a line of its own, because each is measured apart and each
surprises somebody: weights, their metadata, workspace, graphs, communication,
fragmentation, reserve. What remains is for KV blocks::

    device | weights | metadata | workspace | graphs | communication | fragmentation | reserve |
           | ............................. KV: num_blocks_that_fit x block ................. |

Bytes are whole numbers and GiB is 2**30. Blocks that sequences share exist once, and
are counted once.
"""

from collections.abc import Iterable
from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass, fields
from fractions import Fraction

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What of a model decides the size of its KV. Raises ValueError for impossible shapes."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    bytes_per_kv_element: Fraction | int = 2
    """A fraction for formats below a byte; scales and zero points are a line of the ledger."""
    num_sliding_layers: int = 0
    """Of `num_layers`, those that keep only the last `sliding_window` positions."""
    sliding_window: int | None = None

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_kv_heads", "head_dim", "bytes_per_kv_element"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive")
        if not 0 <= self.num_sliding_layers <= self.num_layers:
            raise ValueError(
                f"num_sliding_layers is {self.num_sliding_layers} of {self.num_layers} layers"
            )
        if self.num_sliding_layers and not (self.sliding_window and self.sliding_window > 0):
            raise ValueError(
                f"{self.num_sliding_layers} layers slide over a window of {self.sliding_window}; "
                f"set sliding_window to at least 1"
            )

    def num_kv_heads_per_device(self, tensor_parallel_size: int = 1) -> int:
        """KV heads on each of `tensor_parallel_size` devices; beyond one a device they replicate.

        Raises ValueError when heads can be neither split nor replicated evenly.
        """
        if tensor_parallel_size < 1:
            raise ValueError(f"tensor_parallel_size is {tensor_parallel_size}; at least 1")
        if tensor_parallel_size <= self.num_kv_heads:
            heads, rest = divmod(self.num_kv_heads, tensor_parallel_size)
        else:
            heads, rest = 1, tensor_parallel_size % self.num_kv_heads
        if rest:
            raise ValueError(
                f"{self.num_kv_heads} KV heads cannot be spread evenly over "
                f"{tensor_parallel_size} devices; use a divisor or a multiple of the heads"
            )
        return heads

    def kv_bytes_per_token(self, tensor_parallel_size: int = 1) -> int:
        """Bytes on each device for a token that every layer keeps: keys and values."""
        return self._layer_bytes(self.num_layers, tensor_parallel_size)

    def kv_bytes(self, num_tokens: int, tensor_parallel_size: int = 1) -> int:
        """Bytes on each device for a context of `num_tokens`, before rounding up to blocks.

        Sliding layers keep at most their window of it.
        """
        full = self._layer_bytes(self.num_layers - self.num_sliding_layers, tensor_parallel_size)
        if self.sliding_window is None:
            return num_tokens * full
        sliding = self._layer_bytes(self.num_sliding_layers, tensor_parallel_size)
        return num_tokens * full + min(num_tokens, self.sliding_window) * sliding

    def _layer_bytes(self, num_layers: int, tensor_parallel_size: int) -> int:
        heads = self.num_kv_heads_per_device(tensor_parallel_size)
        return _whole_bytes(2 * num_layers * heads * self.head_dim * self.bytes_per_kv_element)


def weights_bytes(num_parameters: int, bytes_per_parameter: Fraction | int) -> int:
    """Bytes of the weights proper. Scales and zero points belong to `weight_metadata_bytes`."""
    return _whole_bytes(num_parameters * bytes_per_parameter)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLedger:
    """One device's memory, line by line, in bytes. A line that is not used is 0.

    Raises ValueError for negative lines and for blocks without a size.
    """

    device_bytes: int
    """All that the engine may use."""
    weights_bytes: int
    weight_metadata_bytes: int = 0
    """Scales and zero points."""
    workspace_bytes: int = 0
    """Activations and temporaries at their peak."""
    graph_bytes: int = 0
    communication_bytes: int = 0
    fragmentation_bytes: int = 0
    reserve_bytes: int = 0
    """Never given out: what a measurement cannot foresee."""
    kv_bytes_per_token: int
    block_size: int
    """Tokens of a KV block."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(
                    f"{field.name} is {getattr(self, field.name)}; it cannot be less than 0"
                )
        if self.bytes_per_block < 1:
            raise ValueError(
                f"a block of {self.block_size} tokens of {self.kv_bytes_per_token} bytes "
                f"is empty; both must be at least 1"
            )

    @property
    def committed_bytes(self) -> int:
        """All lines that are not KV, the reserve included."""
        return (
            self.weights_bytes
            + self.weight_metadata_bytes
            + self.workspace_bytes
            + self.graph_bytes
            + self.communication_bytes
            + self.fragmentation_bytes
            + self.reserve_bytes
        )

    @property
    def kv_budget_bytes(self) -> int:
        """What is left for KV. Negative: by how much the device is too small."""
        return self.device_bytes - self.committed_bytes

    @property
    def bytes_per_block(self) -> int:
        """One block over all layers, keys and values."""
        return self.block_size * self.kv_bytes_per_token

    @property
    def num_blocks_that_fit(self) -> int:
        """Whole KV blocks within the budget; 0 when there is none."""
        return max(0, self.kv_budget_bytes) // self.bytes_per_block

    def max_resident_requests(self, tokens_per_request: int) -> int:
        """How many contexts of that length fit at once: a ceiling by memory alone.

        Contexts occupy whole blocks. Latency may set a lower one. Raises ValueError for
        contexts without a token.
        """
        if tokens_per_request < 1:
            raise ValueError(f"tokens_per_request is {tokens_per_request}; it must be at least 1")
        return self.num_blocks_that_fit // num_blocks_for(tokens_per_request, self.block_size)

    def lines(self, num_blocks: int) -> dict[str, int]:
        """Bytes by line with a pool of `num_blocks`; their sum is the device.

        Raises ValueError when the pool does not fit.
        """
        kv_bytes = num_blocks * self.bytes_per_block
        unassigned = self.kv_budget_bytes - kv_bytes
        if unassigned < 0:
            raise ValueError(
                f"{num_blocks} KV blocks need {kv_bytes} bytes and {self.kv_budget_bytes} are "
                f"left of {self.device_bytes}; {self.num_blocks_that_fit} blocks fit"
            )
        return {
            "weights": self.weights_bytes,
            "weight_metadata": self.weight_metadata_bytes,
            "workspace": self.workspace_bytes,
            "graph": self.graph_bytes,
            "communication": self.communication_bytes,
            "fragmentation": self.fragmentation_bytes,
            "reserve": self.reserve_bytes,
            "kv": kv_bytes,
            "unassigned": unassigned,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """What live contexts occupy in blocks of one size."""

    block_size: int
    num_blocks: tuple[int, ...]
    """By context."""
    num_slots: int
    num_unused_slots: int
    """Token slots in last blocks that hold nothing."""

    @property
    def num_block_table_entries(self) -> int:
        """One an owned block."""
        return sum(self.num_blocks)


def num_blocks_for(num_tokens: int, block_size: int) -> int:
    """Blocks that one context of `num_tokens` occupies."""
    return -(-num_tokens // block_size)


def page(live_tokens: Iterable[int], block_size: int) -> Paging:
    """Lay contexts that share nothing out in blocks."""
    lengths = tuple(live_tokens)
    num_blocks = tuple(num_blocks_for(length, block_size) for length in lengths)
    num_slots = sum(num_blocks) * block_size
    return Paging(
        block_size=block_size,
        num_blocks=num_blocks,
        num_slots=num_slots,
        num_unused_slots=num_slots - sum(lengths),
    )


def num_physical_blocks(block_tables: Iterable[ReadableSequence[int]]) -> int:
    """Distinct blocks of several tables: what sequences share exists once."""
    return len({block_id for table in block_tables for block_id in table})


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingContexts:
    """`num_active` contexts that start short, of which some grow long, in a KV budget."""

    kv_bytes_per_token: int
    budget_bytes: int
    num_active: int
    short_tokens: int
    long_tokens: int

    @property
    def bytes_each_long_adds(self) -> int:
        """What one context takes more once it is long."""
        return (self.long_tokens - self.short_tokens) * self.kv_bytes_per_token

    def kv_bytes(self, num_long: int) -> int:
        """All contexts together, `num_long` of them long. Raises ValueError beyond the active."""
        if not 0 <= num_long <= self.num_active:
            raise ValueError(f"{num_long} of {self.num_active} contexts cannot be long")
        short = self.num_active * self.short_tokens * self.kv_bytes_per_token
        return short + num_long * self.bytes_each_long_adds

    @property
    def max_long(self) -> int | None:
        """How many may be long at once within the budget; None when not even all short fit."""
        spare = self.budget_bytes - self.kv_bytes(0)
        if spare < 0:
            return None
        if self.bytes_each_long_adds <= 0:
            return self.num_active
        return min(self.num_active, spare // self.bytes_each_long_adds)


def _whole_bytes(count: Fraction | int) -> int:
    """Rounded up: half a byte occupies one."""
    return -(-count // 1)
