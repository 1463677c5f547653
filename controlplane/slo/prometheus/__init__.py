"""What Prometheus is given: rules that count, burn and alert, generated from contracts."""
