"""The control plane's HTTP interface: config, records, gateways, requests."""
