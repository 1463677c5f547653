"""The client of one OpenAI-compatible endpoint of any make."""

from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_openai.dialect import OpenAIDialect
from pilothouse_openai.settings import OpenAISettings

_PROOF_SECONDS = 60.0


def create_client(replica_id: str, address: str, settings: OpenAISettings) -> EndpointClient:
    """Not yet connected. Raises ValueError when its key cannot be had."""
    proof_seconds = _PROOF_SECONDS if settings.prove_ready else None
    return EndpointClient(replica_id, address, settings, OpenAIDialect(settings), proof_seconds)
