"""The embedded scheduler: processes on this machine, with a shared ledger of the memory and GPUs in use.

In the client: `submitter` refuses unsatisfiable requests and starts an AM. `supervision/supervisor` is the AM's parent
and starts the next AM attempt if it is killed. In the AM: `allocator` takes a container from granted to ended, with
`containers/`. The job's share of the machine is its claim in the ledger, `claims/`.
"""
