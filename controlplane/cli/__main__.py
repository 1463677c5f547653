"""`python -m controlplane.cli`: the `pilothouse` command without its script."""

from controlplane.cli import main

main(prog_name="pilothouse")
