"""Runs the config database's migrations on the connection that controlplane.store.schema opened.

One transaction for the whole run, on SQLite as well: it can roll DDL back.
"""

from alembic import context

attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    target_metadata=attributes["metadata"],
    version_table=attributes["version_table"],
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
