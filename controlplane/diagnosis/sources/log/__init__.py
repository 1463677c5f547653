"""Logs of engines, kernels and service managers, line by line."""
