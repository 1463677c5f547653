"""The web console: server-rendered pages over the JSON API."""
