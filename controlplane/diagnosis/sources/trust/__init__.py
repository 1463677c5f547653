"""What of the telemetry is not to be trusted, and why: each doubt is told, nothing is repaired in
silence."""
