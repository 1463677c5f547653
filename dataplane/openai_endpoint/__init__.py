"""Somebody else's server, spoken to as OpenAI's API is: what every adapter to such engines shares.

`client` is the gateway's half of the engine contract; `dialect` is where engines differ, and what
a plugin gives. Nothing here knows one engine from another.
"""
