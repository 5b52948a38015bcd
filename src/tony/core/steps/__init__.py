"""Steps of the state machine for an event, one concern per module.

Each step is a function of a `StepContext`: it changes the state and requests actions. Modules import only modules
below them in this list:

    deadlines           deadlines that have passed
    job_requests        kill and restart requests
    am_attempts         an AM attempt starts, the first or a later one
    container_loss      containers and executors that end or fall silent
    executor_reports    reports of executors about their programs
    session_start       a session opens
    unconfirmed_exit    containers whose end is not confirmed
    task_exit           a task ended: consequences for its role, its session, its job
    role_readiness      roles become ready, groups time out, the job succeeds
    failure_handling    a failure is classified
    task_retry          one task restarts alone
    session_restart     a session is replaced by the next one
    node_exclusion      hosts on which tasks failed repeatedly
    job_finish          the job's result, and its end
    program_stop        programs are stopped, by force if need be
    gang_deadlock       an incomplete gang releases its containers for a while
    elastic_start       an elastic gang starts without some of its tasks
    gang_start          registration; publish and start
    containers          requested, granted, released
    task_attempts       one task attempt, from its start to the proof of its end
"""
