"""Support bundles: what somebody else needs to help, without secrets and without content."""
