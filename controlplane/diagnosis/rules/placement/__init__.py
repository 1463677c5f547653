"""Where requests and their KV go."""
