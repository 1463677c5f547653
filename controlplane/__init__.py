"""What decides: config, operator, records, API, console and command line. Never imports torch."""
