"""The embedded scheduler: processes on this machine, with a ledger of memory and GPUs that all its users share.

The client's half:

    submitter               says what can never work, hands the job over, cleans up after a dead master
    am_start                starts the application master and knows when it is up
    standby                 a master that is loaded while the client still reads the job file
    supervisor              the master's parent: has another one go on if it is killed

The application master's half:

    allocator               a container's way from granted to ended; `container` is what is remembered of it
    role_allocation         which role gets a container next
    task_launcher           lays a task's files down and starts its executor
    executor_processes      executors as processes
    fork_server             forks them from a process that has their modules loaded
    container_recovery      containers of earlier masters whose executors live
    orphan_cleanup          ends what containers and earlier masters have left
    cleanup                 how that is found and ended; what is noted for the next master

A job's claim on the machine:

    resource_claim          obtained, kept, given back
    claim_queue             from wanting to having, woken by the kernel (`inotify`)
    ledger                  all claims, as locked files that all may write; `places` says where
    claim_policy            who may have what: the rule

What a job asks for, and what there is:

    peak, appetite      memory and GPUs at one time; open files and processes
    machine, fit        what the machine has; whether the job can ever fit
    unsupported_settings    what it asks for that one machine does not have
    settings                what can be set; `capabilities` says what this scheduler can do, `scheduler` makes both halves
"""
