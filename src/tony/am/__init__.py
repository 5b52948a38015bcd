"""The application master: the only loop; turns events into actions performed.

    main                    the process: everything up to the moment in which the job can run, and everything at its end
    yarn_main               the same in a container of YARN, which finds its papers first
    master                  the loop: event, log, machine, actions
    durability_barrier      what must wait until its cause is in safety
    job_clock               the job's own time
    fatal_errors            the verdict on a job that cannot go on

After the death of another one:

    recovery                what its log says
    reattach_caller         calls executors that cannot know where we are
    pending_commands        obeys what was asked of the job while nobody answered

Its executors:

    executor_connections    who is connected, what was acknowledged, who fell silent
    launch_context          what each is told at its birth
    start_messages          the orders to start programs
    connection_limits       room for the connections of all

Those who look on:

    subscribers             reports on demand and on change
    notifications           those who want to hear of it by a webhook
    log_relay               what programs print, piece by piece
    metrics_store           what programs use, and how far they are: told, and written down
    downsampling            - that in memory which does not grow
    stack_relay             where a program stands, on request
    tunnel_broker           from clients to ports of tasks
    status_page             how the job stands, for those who come through their cluster's own pages
    page_server             - the process beside us that serves all pages, where there is one
"""
