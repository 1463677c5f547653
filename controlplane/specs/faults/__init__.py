"""The faults of a scenario, one module for what they strike."""
