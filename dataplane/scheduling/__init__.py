"""Scheduling as pure objects: sequence, block pool, prefix cache, scheduler.

No torch, no asyncio, no clock: the native engine and the simulator run on the same
objects and replace only what a step costs.
"""
