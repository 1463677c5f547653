"""Logs: one module for each writer, and a reader that takes them all."""

from controlplane.diagnosis.sources.log.reader import LogReader, read_log

__all__ = ["LogReader", "read_log"]
