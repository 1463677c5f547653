"""The process that runs one native engine as a replica, and the client that talks to it.

`core` is what an engine must offer to be hosted, `wire` the frames between gateway and
replica, `server` the process (`python -m dataplane.host`), `client` the gateway's half,
`process` how launchers start and probe it.
"""
