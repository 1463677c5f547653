"""The KV cache: thrown out for room, outgrown, lost, or of no use."""
