"""The machine's memory and GPUs: measured, claimed by jobs, queued for, and recorded in a shared ledger."""
