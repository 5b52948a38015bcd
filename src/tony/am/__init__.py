"""The application master: the only loop; turns events into actions performed.

    main            the process: everything up to the moment in which the job can run, and everything at its end
    on_yarn         the same in a container of YARN, which finds its papers first
    master          the loop: event, log, machine, actions
    barrier         what must wait until its cause is in safety
    job_clock       the job's own time
    verdict         the verdict on a job that cannot go on

After the death of another one:

    taking_over     what its log says
    summoning       calls executors that cannot know where we are
    requests        obeys what was asked of the job while nobody answered

Its executors:

    executors       who is connected, what was acknowledged, who fell silent
    launching       what each is told at its birth
    starts          the orders to start programs
    open_files      room for the connections of all

Those who look on:

    watchers        reports on demand and on change
    notices         those who want to hear of it by a webhook
    log_relay       what programs print, piece by piece
    measured        what programs use, and how far they are: told, and written down
    series          - that in memory which does not grow
    stacks          where a program stands, on request
    tunnels         from clients to ports of tasks
    page            how the job stands, for those who come through their cluster's own pages
    page_process    - the process beside us that serves all pages, where there is one
"""
