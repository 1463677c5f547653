"""What others than our gateway say about a request: OTLP trace data, decoded and read. Pure."""
