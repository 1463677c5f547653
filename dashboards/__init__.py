"""Grafana dashboards as code: what they are made of here, what they generate in `generated/`.

Symptoms stand above, causes below. No latency is an average. The line of an objective is drawn
where its percentile is, and says the revision of the contract that it comes from.
"""
