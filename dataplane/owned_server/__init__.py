"""Somebody else's server as a replica of ours: started, proven, drained and surely ended.

`replica` is the process that a launcher starts; it keeps the status file, and has the server as its
child. The server and all that it starts live in a process group of their own, whose leader is a
`guard`: should the replica die, by whatever signal, the guard ends the group. `process` is what the
control plane knows of it.
"""
