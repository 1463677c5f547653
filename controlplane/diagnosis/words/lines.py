"""Lines of logs that several look for, and that no reader of logs makes an event of."""

DECODE_SPEED = r"decoded\s.*speed:\s*([\d.]+)"
"""llama.cpp of a request: tokens a second are group 1."""
PRIVATE_POOLS = r"with ([\d.]+ [KMG]i?B) allocated in private pools"
"""PyTorch of graphs: their amount is group 1."""
NO_ROOM_IN_SLOTS = r"Context size has been exceeded|failed to find (a memory slot|free space)"
