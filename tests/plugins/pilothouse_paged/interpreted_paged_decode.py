"""Runs the Triton kernel in Triton's interpreter; test_paged_decode starts it as a process.

The interpreter is chosen by TRITON_INTERPRET=1 before triton is imported, which is why it
is not part of the test's own process. Prints a JSON list: for each case its name and the
largest difference from the torch path.
"""

import json
import sys

import torch

from pilothouse_paged.attention import attend_decodes
from pilothouse_paged.batch import Chunk, lay_out
from pilothouse_paged.kernels.paged_decode import run_paged_decode

CASES = {
    "demo model shape": (9, 3, 64, 16, (1, 15, 16, 17, 63, 64, 65, 200)),
    "one head": (1, 1, 16, 4, (3, 130)),
    "no sharing": (4, 4, 32, 8, (7, 8, 9)),
    "many share one": (32, 1, 64, 16, (77,)),
    "odd head and block": (6, 2, 80, 5, (4, 5, 66, 129)),
}
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def largest_difference(name: str, dtype: torch.dtype) -> float:
    num_heads, num_kv_heads, head_dim, block_size, lengths = CASES[name]
    generator = torch.Generator().manual_seed(len(name))
    num_blocks = sum(-(-length // block_size) for length in lengths)
    shuffled = iter(torch.randperm(num_blocks, generator=generator).tolist())
    chunks = [
        Chunk(
            sequence_id=index,
            token_ids=(0,),
            start=length - 1,
            block_table=[next(shuffled) for _ in range(-(-length // block_size))],
            selects_token=True,
            is_decode=True,
        )
        for index, length in enumerate(lengths)
    ]
    batch = lay_out(chunks, block_size, torch.device("cpu"))
    kv_cache = torch.randn(
        2, num_blocks, block_size, num_kv_heads, head_dim, generator=generator
    ).to(dtype)
    queries = torch.randn(len(lengths), num_heads, head_dim, generator=generator).to(dtype)
    expected = attend_decodes(queries.float(), kv_cache.float(), batch)
    computed = run_paged_decode(
        queries,
        kv_cache,
        batch.decode_blocks,
        batch.decode_lengths_tensor,
        is_widened=dtype == torch.bfloat16,
    )
    return float((computed.float() - expected).abs().max())


if __name__ == "__main__":
    json.dump(
        [[name, str(dtype), largest_difference(name, dtype)] for name in CASES for dtype in DTYPES],
        sys.stdout,
    )
