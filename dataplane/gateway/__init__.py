"""OpenAI-compatible HTTP in front of engines: the one path every request takes."""
