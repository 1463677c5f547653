"""Our records of requests as signals and facts: those of the store, those of files.

One arithmetic for both. What only the store has (exact counts of all requests, pages of gateways)
goes before it in the control plane; a file of records has all of it in the records themselves.
"""
