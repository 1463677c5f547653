"""`python -m controlplane.cli`: the `pilothouse` command without its script."""

from controlplane.cli import main

if __name__ == "__main__":
    main(prog_name="pilothouse")
