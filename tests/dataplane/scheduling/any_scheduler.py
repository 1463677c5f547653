"""Bounds of schedulers as hypothesis draws them: small, so that every limit is met."""

from hypothesis import strategies as st

from dataplane.scheduling.scheduler import SchedulerConfig

MAX_STEPS_TO_DRAIN = 3000


def any_config(
    *,
    max_model_len: int,
    slots: int,
    extra: int,
    prefill: int,
    blocks: int,
    block_size: int,
    caching: st.SearchStrategy[bool],
) -> st.SearchStrategy[SchedulerConfig]:
    """Each bound up to what is given; `extra` are batched tokens beyond one for each slot."""
    return st.builds(
        lambda slots, extra, prefill, blocks, block_size, caching: SchedulerConfig(
            max_num_seqs=slots,
            max_num_batched_tokens=slots + extra,
            max_prefill_tokens_per_step=prefill,
            max_model_len=max_model_len,
            num_blocks=blocks,
            block_size=block_size,
            is_prefix_caching=caching,
        ),
        st.integers(1, slots),
        st.integers(0, extra),
        st.none() | st.integers(1, prefill),
        st.integers(2, blocks),
        st.integers(1, block_size),
        caching,
    )
