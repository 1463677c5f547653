"""What OpenAI's HTTP API looks like: request documents, answers and errors, and nothing else."""
