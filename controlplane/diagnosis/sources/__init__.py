"""Where windows come from: each source turns what it reads into signals, facts and log events."""
