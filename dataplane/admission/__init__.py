"""Who may enter: the pure decision on a request that arrives, and what it reads."""
