"""The index of all jobs in SQLite: schema, entries, writer, queries."""
