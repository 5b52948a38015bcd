"""Steps of the state machine for an event, one concern per module.

Each step is a function of a `StepContext`: it changes the state and requests actions. Modules import only modules
below them in this list:

    deadlines           deadlines that have passed
    am_attempts         an AM attempt starts, the first or a later one
    executor_reports    reports of executors about their programs
    container_loss      containers and executors that end or stop responding; ends that are not confirmed
    session_start       a session opens
    task_exit           a task ended: it restarts alone, or its role, session and job react
    role_readiness      roles become ready, groups time out, the job succeeds
    stalls              the programs of a session stopped making progress, or one is slow
    failure_handling    a failure is classified
    session_restart     a session is replaced by the next one
    node_exclusion      hosts on which tasks failed repeatedly
    job_finish          the job's result, and its end
    gang                registration; publish and start, with fewer tasks if need be; release for a while
    task_attempts       one task attempt, from its start to the proof of its end; stop and kill
    containers          granted, released, killed
    container_demand    how many containers are requested, and the deadlines for them
"""
