"""`python -m controlplane.cli`: the `pilothouse` command without its script."""

from controlplane.entry import main

if __name__ == "__main__":
    main()
