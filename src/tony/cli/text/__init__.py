"""Everything that a command prints about a job, as text: status, events, timeline, metrics, comparisons."""
