"""Devices, and those that hold one model together."""

NUM_DEVICES = r"tensor parallel( size)?$|^tp( size)?$|^(num )?(gpus|cards|nodes|ranks)$"
NOT_NUM_DEVICES = r"free|used|util|memory"
OF_DEVICE = r"\b(gpu|vram|device|smi|card)\b"
"""Memory that is no host's."""
