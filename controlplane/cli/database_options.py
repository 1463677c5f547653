"""Where the two databases are, from the options that every command over them takes."""

from controlplane.cli.options import database_options
from controlplane.store.connection import database_urls

__all__ = ["database_options", "database_urls"]
