"""The telemetry itself: stale, missing, misread, or of two clocks."""
