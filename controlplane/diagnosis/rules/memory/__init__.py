"""Memory that ran out, of a device or of the host: which line of the ledger broke, and when."""
