"""Names that the OpenTelemetry conventions give, as far as our spans use them.

The generative AI conventions have the status "development": names may still change or move,
and an import from their incubating package may vanish. So they are constants here, and this
is the only module to touch when they change. Source: opentelemetry-semantic-conventions
0.66b2 (`semconv/_incubating/attributes/gen_ai_attributes.py`) and
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ . A test compares them with
the installed package where it still has them.
"""

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
"""Seconds. Ours counts from the request's first byte at the gateway, a client's from its send."""
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"

OPERATION_CHAT = "chat"
OPERATION_TEXT_COMPLETION = "text_completion"
OPERATION_GENERATE_CONTENT = "generate_content"

# Stable conventions that the request span uses beside them.
ERROR_TYPE = "error.type"
HTTP_RESPONSE_STATUS_CODE = "http.response.status_code"
URL_PATH = "url.path"
