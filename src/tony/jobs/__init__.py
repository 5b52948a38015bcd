"""Looks at jobs from outside, and tells them things: for the command line, the Python door and the pages alike.

    home, user, job_ids     where all state lies, who we are, which job is meant

How a job stands:

    facts, listing          from whoever knows: the living master, the summary, the record
    am_client              asks the living application master
    killing                ends a job
    changing               restarts its session, asks where its programs stand, sets its log level
    portal_client          asks a portal; for output `portal_logs`, for stacks `portal_stacks`

It is followed:

    job_follower           states and output, to the end
    log_tail, log_reader    output while it is written; `log_names` says which files, `live_reader` shows progress bars
    log_stream, events      output and events for programs
    inotify                woken instead of looking again and again
    queue_timeout          ends a job that waits for its master too long
    tunnel_client          connections to ports of its tasks

It is looked at as a whole:

    told                   its event log as a timeline, and where its time went
    otlp_export            sends that to a collector of traces
    job_metrics            series of its tasks, from its record and its living master
    progress               how far it is, from what its programs reported
    comparison             two of them side by side
    portal_address         where a portal shows them now

It runs on other machines, and its folder here follows it:

    remote_jobs            how it stands, its event log, its end
    log_fetcher            output, asked of its application master while it is printed
    remote_record          all of that when a page is looked at, and links to its scheduler's own pages
    log_mirror             the copies of its log files here

It ends:

    failure, failure_hints  its end in words; what to do about known errors
    cached_status          how it stood when it was heard of last, where nobody answers for it
    event_text             its events in words
    closing, post_mortem    the record of a job whose master died
    aborted_submissions    what a killed submission has left
"""
