"""The embedded scheduler: processes on this machine, with a ledger of memory and GPUs that all its users share."""
