"""Every deployment, looked at all the time by the thread of the control plane.

`sight` keeps what can be seen without harming anybody: metrics pages of replicas, what gateways
report, what is counted, what was changed. `watcher` lets the rules judge it, keeps incidents, and
`diagnoses` holds the last answer for whoever asks.
"""
