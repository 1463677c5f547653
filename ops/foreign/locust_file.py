"""What locust's users do: chats that stream, completions that do not, and the list of models.

Run by locust, in its own environment: nothing of ours is there.
"""

import json

from locust import HttpUser, constant_throughput, task


class Chatter(HttpUser):
    """Two calls in a second."""

    wait_time = constant_throughput(2)

    @task(3)
    def stream(self) -> None:
        """A chat, to its end mark."""
        body = {
            "model": "bytes",
            "messages": [{"role": "user", "content": "Tell me of the harbour."}],
            "max_tokens": 20,
            "ignore_eos": True,
            "stream": True,
        }
        with self.client.post(
            "/v1/chat/completions", json=body, stream=True, catch_response=True, name="stream"
        ) as response:
            lines = [line for line in response.iter_lines() if line]
            if response.status_code != 200:
                response.failure(f"status {response.status_code}")
            elif lines[-1] != b"data: [DONE]":
                response.failure("a stream without its end mark")
            elif len(lines) < 4:  # who reads slowly gets fewer and larger ones
                response.failure(f"{len(lines)} events of 20 tokens")
            else:
                response.success()

    @task(2)
    def whole(self) -> None:
        """A completion in one piece, with its usage."""
        body = {"model": "bytes", "prompt": "Once upon", "max_tokens": 10, "ignore_eos": True}
        with self.client.post(
            "/v1/completions", json=body, catch_response=True, name="whole"
        ) as response:
            usage = json.loads(response.content).get("usage", {})
            if usage.get("completion_tokens") != 10:
                response.failure(f"usage {usage}")
            else:
                response.success()

    @task(1)
    def models(self) -> None:
        """Who is there."""
        self.client.get("/v1/models", name="models")
