"""What the machine does with an event, one job per module.

Each step is a function of a `Turn`: it changes the state and asks for actions. The arrows between the modules point one
way, from the top of this list to its end:

    deadlines           a time has come
    user_commands       what people ask for
    am_attempts         an application master begins its life, the first or a later one
    container_loss      containers and executors that go away or fall silent
    executor_reports    what executors say of themselves and their programs
    session_start       a session opens
    unconfirmed_exit    containers of which nobody has seen the end
    task_exit           a task is over: what follows for its role, its session, its job
    role_readiness      what may happen next: roles become ready, groups run out of time, the job has succeeded
    failure_handling    a failure gets its verdict
    task_retry          one task alone starts again
    session_restart     a session is given up for the next one
    node_exclusion      hosts on which tasks failed again and again
    job_finish          the job's result, and its end
    program_stop        programs are stopped, by force if need be
    gang_deadlock       a gang that was granted in part and gets no more gives back what it has, for a while
    elastic_start       a gang that may go without some of its tasks does so
    gang_start          who has registered; publish and start
    containers          asked for, granted, given back
    task_attempts       one try, from its start to the proof of its end
"""
