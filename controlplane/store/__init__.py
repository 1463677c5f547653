"""SQL: tables, revisions, replicas and request data. The only place that writes SQL."""
