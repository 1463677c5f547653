"""Requests that wait: for too much work, for one of them, or for nothing."""
