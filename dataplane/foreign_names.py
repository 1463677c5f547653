"""Names in other people's spans that no convention gives, as far as we read them.

vLLM (`llm_request`, kind SERVER, one span a request, made when it finishes) and SGLang (its
root span) carry latencies in seconds under `gen_ai.latency.*`; the two do not mean the same by
all of them: SGLang's prefill counts from dispatch and so includes its queue, vLLM's does not.
Sources: vLLM `vllm/v1/engine/output_processor.py` and `vllm/tracing/utils.py`, SGLang
`srt/observability/`, OpenInference `_stream.py`, OpenLLMetry `instrumentation-openai`.
"""

from dataplane import genai

ENGINE_LATENCY_PREFIX = "gen_ai.latency."
ENGINE_TIME_IN_QUEUE = "gen_ai.latency.time_in_queue"
ENGINE_TIME_TO_FIRST_TOKEN = "gen_ai.latency.time_to_first_token"
ENGINE_E2E = "gen_ai.latency.e2e"
ENGINE_TIME_IN_PREFILL = "gen_ai.latency.time_in_model_prefill"
ENGINE_TIME_IN_DECODE = "gen_ai.latency.time_in_model_decode"
ENGINE_TIME_IN_INFERENCE = "gen_ai.latency.time_in_model_inference"
ENGINE_TIME_IN_SCHEDULER = "gen_ai.latency.time_in_scheduler"
ENGINE_REQUEST_ID = "gen_ai.request.id"
ENGINE_PROMPT_TOKENS = ("gen_ai.usage.prompt_tokens", genai.USAGE_INPUT_TOKENS)
"""The older name first, which vLLM still writes; the convention has renamed it."""
ENGINE_OUTPUT_TOKENS = ("gen_ai.usage.completion_tokens", genai.USAGE_OUTPUT_TOKENS)

VLLM_REQUEST_SPAN = "llm_request"
"""The name of vLLM's span of one request; what it does at its start has other names."""
VLLM_START_SPAN = "Overall Loading"
VLLM_LOAD_SPAN = "Load model"
"""The whole start of an engine, and the loading of the weights in it."""

FIRST_CHUNK_EVENTS = frozenset(
    {
        "First Token Stream Event",  # OpenInference
        "llm.content.completion.chunk",  # OpenLLMetry, once for each chunk
    }
)
"""Span events of the first chunk, which may hold no content yet."""

KEPT_ATTRIBUTES = (
    ENGINE_TIME_IN_QUEUE,
    ENGINE_TIME_TO_FIRST_TOKEN,
    ENGINE_TIME_IN_PREFILL,
    ENGINE_TIME_IN_DECODE,
    ENGINE_TIME_IN_INFERENCE,
    ENGINE_E2E,
    ENGINE_TIME_IN_SCHEDULER,
    "gen_ai.latency.time_in_model_forward",
    "gen_ai.latency.time_in_model_execute",
    genai.OPERATION_NAME,
    genai.PROVIDER_NAME,
    genai.REQUEST_MODEL,
    genai.RESPONSE_MODEL,
    genai.RESPONSE_ID,
    genai.REQUEST_STREAM,
    genai.REQUEST_MAX_TOKENS,
    genai.RESPONSE_TIME_TO_FIRST_CHUNK,
    genai.USAGE_INPUT_TOKENS,
    genai.USAGE_OUTPUT_TOKENS,
    genai.USAGE_CACHE_READ_INPUT_TOKENS,
    ENGINE_PROMPT_TOKENS[0],
    ENGINE_OUTPUT_TOKENS[0],
    "gen_ai.request.n",
    "gen_ai.request.temperature",
    "gen_ai.request.top_p",
    ENGINE_REQUEST_ID,
)
"""What is kept of a span of others: figures and names, never prompts or answers."""
