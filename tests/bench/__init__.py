"""The bench's own pieces, and that every row runs. No test looks at a time."""
