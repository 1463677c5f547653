"""What a request passes through. It does not know the control plane."""
