"""The embedded scheduler: processes on this machine, with a ledger of memory and GPUs that all its users share.

In the client: `submitter` refuses what can never run (`feasibility`, `unsupported_settings`) and hands the job to an
AM (`am_start`, `standby`). `supervisor` is the AM's parent and starts the next AM attempt if it is killed.

In the AM: `allocator` takes a container from granted to ended. `role_allocation` decides which role is next,
`task_launcher` copies a task's files and starts its executor (`executor_processes`, `fork_server`). After a failover
`container_recovery` reattaches living executors and `orphan_cleanup` ends the rest.

The machine: `resource_claim` is the job's claim, `claim_queue` waits for it, `ledger` has all claims as locked files
that all users may write, `claim_policy` decides who is next (pure). `machine_capacity` measures what there is,
`peak_demand` what a job needs at one time.
"""
