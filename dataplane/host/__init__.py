"""The process that runs one native engine as a replica, and the client that talks to it.

`core` is what an engine must offer to be hosted, `wire` the frames between gateway and
replica, `server` the process (`python -m dataplane.host`), `client` the gateway's half,
`process` how launchers start and probe it.
"""

DRAIN_VARIABLE = "PILOTHOUSE_DRAIN_SECONDS"
"""The environment variable that says how long a replica may go on after SIGTERM."""
