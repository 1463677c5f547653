"""Reconciles desired with observed: replicas, launchers, adoption, the gateways' snapshot."""
