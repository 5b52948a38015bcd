"""Hadoop YARN: the client submits over Hadoop's own RPC, the application master and the executors are containers.

The client's half:

    submitter                says what can never work, submits, finds the application again, ends it
    cluster_discovery        which cluster is meant; `cluster` has its configuration and the clients of its daemons
    capacity                 what the cluster has for the job, and `wants` what the job wants of it
    placement_constraints    where its tasks may be, for YARN; `never_placed` is what of that no cluster could keep to
    feasibility              what the cluster can never give, with the arithmetic, or only later; `shares` is what its queue can
    submission_context       what is sent to YARN for the application and for each container; `rendering` shows it (`--dry-run`)

What it brings into HDFS:

    artifacts                the list of it: staged objects, and archives that are `made` once and kept in the cache here
    runtime_archive          the archive of our own programs
    pages_archive            the archive of what serves a job's pages, for the application master alone
    pyc_compiler             compiled files of modules, the same bytes whoever makes them
    python_archive           the archive of the submitter's Python; `libraries` makes its program find its shared library
    plugin_archive           the archive of a framework's plug-in
    cache_upload             puts each there once, by digest; `eviction` removes what nobody used for long; `no_room` is what is
                  said when it does not fit

What it learns afterwards:

    record_download          event log, summary and what else the application master wrote, brought here
    application_lifetime     whether YARN has ended an application because its time was over
    list_entry               an application of the cluster as a job in a list; `waiting_line` says where it stands in its queue
    foreign_applications     a job of another machine: where its record is, and what is said while there is none
    container_logs           what programs printed: at their nodes, or aggregated in HDFS
    web_links                where the cluster's own pages show a job and its containers

Inside the cluster:

    launch_payload           what travels to a container: the job or the task, its secrets
    container_env            what a program finds out in its container; `launch/` has the scripts that find a Python there
    allocator                the application master's half: its tie to the ResourceManager
    outstanding_requests     how many containers are still to come, and what is told of those that do not; `asking` is what for
    nodes_without_python     nodes without a Python, which are left out; `exclusions` are those on which tasks fail
    container_table          each of them from its grant to its end
    exit_reasons             why a container ended, in a sentence; `last_word` is why the application did, if YARN has ended it
    job_folder               the job's folder in HDFS; `publisher` writes the record into it
    event_log_replication    has the event log in HDFS before its effects show
    previous_attempts        takes the event logs of earlier attempts; `recovery` what is left of their containers

Both: `settings` says what can be set, `tokens` what both prove themselves with to HDFS, `capabilities` what this
scheduler can do, `scheduler` makes both halves.
"""
