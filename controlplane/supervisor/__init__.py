"""`pilothouse serve`: the process that keeps control plane and gateway running, and ends all."""
