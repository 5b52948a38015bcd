"""What the machine does with an event, one job per module.

Each step is a function of a `Turn`: it changes the state and asks for actions. The arrows between the modules point one
way, from the top of this list to its end:

    deadlines       a time has come
    commands        what people ask for
    attempts        an application master begins its life, the first or a later one
    losses          containers and executors that go away or fall silent
    reports         what executors say of themselves and their programs
    sessions        a session opens
    presumed        containers of which nobody has seen the end
    outcomes        a task is over: what follows for its role, its session, its job
    progress        what may happen next: roles become ready, groups run out of time, the job has succeeded
    failing         a failure gets its verdict
    again           one task alone starts again
    restarting      a session is given up for the next one
    nodes           hosts on which tasks failed again and again
    ending          the job's result, and its end
    stopping        programs are stopped, by force if need be
    standstill      a gang that was granted in part and gets no more gives back what it has, for a while
    elastic         a gang that may go without some of its tasks does so
    gang            who has registered; publish and start
    containers      asked for, granted, given back
    programs        one try, from its start to the proof of its end
"""
