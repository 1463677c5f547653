"""The figures that engines say again and again, in all the ways that their versions have."""

import itertools

import pytest

from controlplane.diagnosis.sources.log import read_log
from controlplane.diagnosis.sources.log.figure import Figure
from controlplane.diagnosis.sources.log.growing import MOST_READINGS, GrowingSeries
from controlplane.diagnosis.sources.log.thinning import Thinning
from dataplane.engine_metrics.signal import Signal

S = Signal

V1_WITH_ALL = (
    "(APIServer pid=7) INFO 11-30 08:00:00 [loggers.py:271] Engine 003: Avg prompt throughput: 9.5"
    " tokens/s, Avg generation throughput: 8.5 tokens/s, Running: 3 reqs, Waiting: 2 reqs,"
    " Deferred: 1 reqs, Preemptions: 4, GPU KV cache usage: 42.5%, Prefix cache hit rate: 7.0%,"
    " External prefix cache hit rate: 50.0%, MM cache hit rate: 25.0%"
)
V1_SPECULATION = (
    "INFO 11-30 08:00:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.80,"
    " Accepted throughput: 64.79 tokens/s, Drafted throughput: 78.79 tokens/s, Accepted: 648"
    " tokens, Drafted: 788 tokens, Per-position acceptance rate: 0.822, 0.500, Avg Draft"
    " acceptance rate: 82.2%"
)
V0 = (
    "INFO 11-30 08:00:00 metrics.py:295] Avg prompt throughput: 9.5 tokens/s, Avg generation"
    " throughput: 8.5 tokens/s, Running: 2 reqs, Swapped: 1 reqs, Pending: 5 reqs, GPU KV cache"
    " usage: 0.8%, CPU KV cache usage: 0.5%."
)
V0_FIRST = (
    "INFO 11-30 08:00:00 llm_engine.py:281] Throughput: 2381.4 tokens/s, Running: 104 reqs,"
    " Swapped: 0 reqs, Pending: 536 reqs, GPU KV cache usage: 96.2%, CPU KV cache usage: 0.0%"
)
V0_HITS = "INFO 11-30 08:00:00 metrics.py:367] Prefix cache hit rate: GPU: 26.51%, CPU: 0.00%"
V0_SPECULATION = (
    "INFO 11-30 08:00:00 metrics.py:316] Speculative metrics: Draft acceptance rate: 0.250, System"
    " efficiency: 0.300, Number of speculative tokens: 4, Number of accepted tokens: 50, Number of"
    " draft tokens tokens: 200, Number of emitted tokens tokens: 100."
)
OLD_PREFILL = (
    "[gpu=0] Prefill batch. #new-seq: 2, #new-token: 900, #cached-token: 100, cache hit rate:"
    " 10.00%, token usage: 0.05, #running-req: 1, #queue-req: 3"
)
OLDEST_DECODE = (
    "#running-req: 2, #token: 9410, token usage: 22.24%, gen throughput: 61.03 token/s,"
    " #queue-req: 3"
)
DECODE_OF_POOLS = (
    "[2026-11-30 08:00:00 TP0 EP0] Decode batch, #running-req: 6, #full token: 900, full token"
    " usage: 0.90, #swa token: 50, swa token usage: 0.06, mamba usage: 0.20, accept len: 3.55,"
    " accept rate: 0.51, npu graph: False, gen throughput (token/s): 3.22, #queue-req: 7,"
    " #retracted-req: 2"
)
DISAGGREGATED = (
    "[2026-11-30 08:00:00 DP1 TP4] Decode batch, #running-req: 6, #token: 7, token usage: 0.10,"
    " #prealloc-req: 5, #transfer-req: 4, #retracted-req: 0, cuda graph: True, gen throughput"
    " (token/s): 3.22, #queue-req: 0"
)
PREFILL_SERVER = (
    "[2026-11-30 08:00:00][x.py:1][INFO]: Prefill batch, #new-seq: 1, #new-token: 1,"
    " #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 70,"
    " #prealloc-req: 18, #inflight-req: 3, cuda graph: False, input throughput (token/s): 2.49"
)
ITERATION = (
    "[11/30/2026-08:00:00] [TRT-LLM] [I] iter = 5, global_rank = 0, rank = 0,"
    " currank_total_requests = 0/0, elapsed_time = 0.08s, num_scheduled_requests: 4, kv_cache_util"
    " = 0.25, states = {'num_ctx_requests': 1, 'num_ctx_tokens': 4096, 'num_generation_tokens': 3}"
)
OF_TRITON = (
    'I1130 08:00:00.688135 20559 libtensorrtllm.cc:1205] {"Active Request Count":1,"Context'
    ' Requests":1,"Free KV cache blocks":480,"Iteration Counter":0,"Max KV cache blocks":513,'
    '"Scheduled Requests":1,"Tokens per KV cache block":64}'
)
UNDER_WAY = (
    "10.13.175.674 I slot print_timing: id  0 | task 7 | prompt processing, n_tokens =  36864,"
    " progress = 0.24, t =  21.09 s / 1748.02 tokens per second"
)
DRAFTERS = (
    "4.48.313.680 I statistics draft-mtp: #calls(b,g,a) = 10 727 727, #gen drafts = 727, #acc"
    " drafts = 632, #gen tokens = 1447, #acc tokens = 1135"
)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            V1_WITH_ALL,
            {
                S.PROMPT_RATE: "9.5",
                S.GENERATION_RATE: "8.5",
                S.RUNNING: "3",
                S.WAITING: "2",
                S.DEFERRED: "1",
                S.KV_USAGE: "42.5 %",
                S.HIT_RATE: "7.0 %",
                S.EXTERNAL_HIT_RATE: "50.0 %",
                S.MEDIA_HIT_RATE: "25.0 %",
            },
        ),
        (
            V1_SPECULATION,
            {
                S.ACCEPTANCE_LENGTH: "1.80",
                S.LATE_ACCEPTED_TOKENS: "648",
                S.LATE_DRAFT_TOKENS: "788",
                S.ACCEPTANCE_RATE: "82.2 %",
            },
        ),
        (V0, {S.RUNNING: "2", S.SWAPPED: "1", S.WAITING: "5", S.HOST_KV_USAGE: "0.5 %"}),
        (V0_FIRST, {S.GENERATION_RATE: "2381.4", S.RUNNING: "104", S.WAITING: "536"}),
        (V0_HITS, {S.HIT_RATE: "26.51 %"}),
        (
            V0_SPECULATION,
            {
                S.ACCEPTANCE_RATE: "0.250",
                S.SPECULATION_EFFICIENCY: "0.300",
                S.SPECULATED_TOKENS: "4",
                S.ACCEPTED_TOKENS: "50",
                S.DRAFT_TOKENS: "200",
            },
        ),
        (
            OLD_PREFILL,
            {
                S.BATCH_COMPUTED_TOKENS: "900",
                S.BATCH_CACHED_TOKENS: "100",
                S.HIT_RATE: "10.00 %",
                S.KV_USAGE: "0.05",
                S.WAITING: "3",
            },
        ),
        (
            OLDEST_DECODE,
            {
                S.RUNNING: "2",
                S.CONTEXT_TOKENS: "9410",
                S.KV_USAGE: "22.24 %",
                S.GENERATION_RATE: "61.03",
                S.WAITING: "3",
            },
        ),
        (
            DECODE_OF_POOLS,
            {
                S.CONTEXT_TOKENS: "900",
                S.ACCEPTANCE_LENGTH: "3.55",
                S.ACCEPTANCE_RATE: "0.51",
                S.CUDA_GRAPH: "False",
                S.GENERATION_RATE: "3.22",
                S.RETRACTED: "2",
            },
        ),
        (DISAGGREGATED, {S.DECODE_QUEUE: "5", S.TRANSFER_QUEUE: "4", S.CUDA_GRAPH: "True"}),
        (
            PREFILL_SERVER,
            {
                S.PREFILL_QUEUE: "18",
                S.TRANSFER_QUEUE: "3",
                S.PENDING_PROMPT_TOKENS: "70",
                S.PROMPT_RATE: "2.49",
            },
        ),
        (
            "[2026-11-30 08:00:00 TP0] Prefill batch. #new-seq: 1, #new-token: 2048, #cached-token:"
            " 0, token usage: 0.03, #unbootstrapped-req: 44, #queue-req: 0, #transferring-req: 1",
            {S.PREFILL_QUEUE: "44", S.TRANSFER_QUEUE: "1", S.WAITING: "0"},
        ),
        (ITERATION, {S.RUNNING: "4", S.KV_USAGE: "0.25", S.BATCH_COMPUTED_TOKENS: "4096"}),
        (OF_TRITON, {S.RUNNING: "1", S.KV_BLOCKS: "513", S.KV_BLOCKS_FREE: "480"}),
        (UNDER_WAY, {S.PROMPT_RATE: "1748.02"}),
        (DRAFTERS, {S.DRAFT_TOKENS: "1447", S.ACCEPTED_TOKENS: "1135"}),
        (
            "draft acceptance = 0.67500 (  108 accepted /   160 generated), mean len =  4.38",
            {S.ACCEPTANCE_RATE: "0.67500", S.LATE_DRAFT_TOKENS: "160"},
        ),
        ("n_drafted = 912", {S.DRAFT_TOKENS: "912"}),
        ("accept    = 34.320%", {S.ACCEPTANCE_RATE: "34.320 %"}),
        ("task 7 | n_decoded =    140, tg =  13.64 t/s", {S.GENERATION_RATE: "13.64"}),
    ],
)
def test_figures_are_taken_as_they_stand(line: str, told: dict[Signal, str]) -> None:
    found = {series.signal: series.last.raw for series in read_log(line).series}
    assert told.items() <= found.items()


def test_a_cache_in_main_memory_is_that_of_the_device_where_it_is_the_only_one() -> None:
    line = V1_WITH_ALL.replace("GPU KV", "CPU KV")
    found = {series.signal: series.last.raw for series in read_log(line).series}
    assert found[S.KV_USAGE] == "42.5 %"
    assert S.HOST_KV_USAGE not in found


def test_requests_that_our_gateway_saw_end_are_counted() -> None:
    ended = (
        '{"event": "request ended", "disposition": "%s", "reason": "%s", "level": "info",'
        ' "at": "2026-11-30T08:00:0%dZ"}'
    )
    told = [("length", "", 0), ("length", "", 1), ("rejected", "queue_full", 2)]
    part = read_log("\n".join(ended % each for each in told))
    counts = {(series.signal, *series.labels.values()): series.last.value for series in part.series}
    assert counts == {
        (S.GATEWAY_ENDED, "length"): 2,
        (S.GATEWAY_ENDED, "rejected"): 1,
        (S.GATEWAY_REJECTED, "queue_full"): 1,
    }
    assert (part.start, part.end) == (0, 2)


def test_percent_and_ratio_are_one() -> None:
    of = {series.signal: series.last.value for series in read_log(V1_WITH_ALL).series}
    assert of[S.KV_USAGE] == pytest.approx(0.425)
    assert of[S.HIT_RATE] == pytest.approx(0.07)


def test_each_pool_of_a_cache_is_a_series_of_its_own() -> None:
    pools = {
        series.labels["pool"]: series.last.value
        for series in read_log(DECODE_OF_POOLS).series
        if series.signal is S.KV_USAGE
    }
    assert pools == {"full": 0.9, "swa": 0.06, "mamba": 0.2}


@pytest.mark.parametrize(("line", "engine"), [(V1_WITH_ALL, "3"), (DISAGGREGATED, "1")])
def test_a_data_parallel_rank_is_the_label_engine(line: str, engine: str) -> None:
    assert {series.labels["engine"] for series in read_log(line).series} == {engine}


def test_two_records_that_lost_their_line_break_are_both_read() -> None:
    glued = V0 + V0.replace("08:00:00", "08:00:05").replace("Running: 2", "Running: 4")
    [running] = [series for series in read_log(glued).series if series.signal is S.RUNNING]
    assert [(reading.at, reading.value) for reading in running.readings] == [(0, 2), (5, 4)]


def test_very_many_statistics_are_thinned_evenly_and_end_with_the_last() -> None:
    thinning = Thinning(many=100)
    key = frozenset({"#running-req"})
    left_out = [index for index in range(1000) if thinning.takes(key, "", index)]
    kept = sorted(set(range(1000)) - set(left_out))
    assert kept[:100] == list(range(100))
    assert 200 < len(kept) < 500
    assert max(later - sooner for sooner, later in itertools.pairwise(kept)) < 100
    assert [index for index, _ in thinning.rest()] in ([999], [])
    assert thinning.left_out.total() in (len(left_out), len(left_out) - 1)


def test_a_series_of_any_length_keeps_its_ends_and_an_even_step() -> None:
    growing = GrowingSeries("")
    for at in range(20_000):
        growing.add(Figure(S.RUNNING, "Running", at, str(at)), {}, at)
    [series] = growing.series(0.0, 0.0)
    assert (series.first.value, series.last.value) == (0, 19_999)
    assert len(series.readings) <= MOST_READINGS
    gaps = {later.at - sooner.at for sooner, later in itertools.pairwise(series.readings[:-1])}
    assert len(gaps) == 1
