"""The embedded scheduler: processes on this machine, with a shared ledger of the memory and GPUs in use.

In the client: `submitter` refuses unsatisfiable requests (`feasibility`, `unsupported_settings`) and starts an AM
(`supervision/am_start`, `am_prefork`). `supervisor` is the AM's parent and starts the next AM attempt if it is killed.

In the AM: `allocator` takes a container from granted to ended. `role_allocation` selects the next role,
`containers/task_launcher` copies a task's files and starts its executor (`executor_processes`, `fork_server`). After a
failover `container_recovery` reattaches running executors and `orphan_cleanup` kills the rest.

The machine, in `claims/`: `resource_claim` is the job's claim, `claim_queue` waits for it, `ledger` stores all claims
as locked files that all users may write, `claim_policy` decides which claim is next (pure). `machine_capacity` measures
the resources, `peak_demand` computes how much a job needs at one time.
"""
