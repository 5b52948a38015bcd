"""Hadoop YARN: the client submits over Hadoop's own RPC, the application master and the executors are containers.

The client's half:

    submitter     says what can never work, submits, finds the application again, ends it
    finding       which cluster is meant; `cluster` has its configuration and the clients of its daemons
    offer         what the cluster has for the job, and `wants` what the job wants of it
    constraints   where its tasks may be, for YARN; `never_placed` is what of that no cluster could keep to
    fit           what the cluster can never give, with the arithmetic, or only later; `shares` is what its queue can
    contexts      what is sent to YARN for the application and for each container; `rendering` shows it (`--dry-run`)

What it brings into HDFS:

    parcels       the list of it: staged objects, and archives that are `made` once and kept in the cache here
    runtime       the archive of our own programs
    pages         the archive of what serves a job's pages, for the application master alone
    compiling     compiled files of modules, the same bytes whoever makes them
    interpreter   the archive of the submitter's Python; `libraries` makes its program find its shared library
    plug_in       the archive of a framework's plug-in
    upload        puts each there once, by digest; `eviction` removes what nobody used for long; `no_room` is what is
                  said when it does not fit

What it learns afterwards:

    record        event log, summary and what else the application master wrote, brought here
    lifetime      whether YARN has ended an application because its time was over
    listed        an application of the cluster as a job in a list; `waiting_line` says where it stands in its queue
    unrecorded    a job of another machine: where its record is, and what is said while there is none
    printed       what programs printed: at their nodes, or aggregated in HDFS
    links         where the cluster's own pages show a job and its containers

Inside the cluster:

    papers        what travels to a container: the job or the task, its secrets
    inside        what a program finds out in its container; `launch/` has the scripts that find a Python there
    source        the application master's half: its tie to the ResourceManager
    demand        how many containers are still to come, and what is told of those that do not; `asking` is what for
    unfit_nodes   nodes without a Python, which are left out; `exclusions` are those on which tasks fail
    containers    each of them from its grant to its end
    ends          why a container ended, in a sentence; `last_word` is why the application did, if YARN has ended it
    job_files     the job's folder in HDFS; `publisher` writes the record into it
    journal       has the event log in HDFS before its effects show
    predecessors  takes the event logs of earlier attempts; `recovery` what is left of their containers

Both: `settings` says what can be set, `tokens` what both prove themselves with to HDFS, `capabilities` what this
scheduler can do, `scheduler` makes both halves.
"""
