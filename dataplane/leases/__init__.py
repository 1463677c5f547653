"""What a request holds until it ends: tenant use, prompt tokens in flight, KV blocks."""
