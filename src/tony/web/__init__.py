"""Pages and a JSON API over jobs: an ASGI library. The portal serves it for many jobs, a running job for itself.

    job_source           what pages ask: many jobs, one job, its parts; whoever has them implements it
    authorization        who may see and change what, as pages ask it; and so it is found out:
    auth                 - the gate of a real server: whose connection, whose token, which proxy
    principal            - somebody who was let in, and what a job lets them do
    login_throttle       - wrong tokens, counted
    lanes                threads for each kind of blocking work, so that a list is never behind a record
    job_advice           advice about a job, from what a source tells
    unused_resources     - what was held for nothing, by user and week
    secret_masking       stars in place of what looks like a secret
    api/            the JSON API; its map is there
    metrics_endpoint     the jobs that run, as numbers for a collector
    app                  the application: addresses, headers, errors
    uvicorn_server       runs it in uvicorn
    home_source          the jobs of one user's home, without an index
    in_memory_query      - which of them are wanted, in which order
    folder_job_view      one job, from its folder and its application master
    log_files            - its logs, by bytes; near_logs: those that are brought from other machines first

What is shown:

    pages/          one module per page: reads the address, asks the source, fills a template
    request              a request for one: who asks, for what
    links                addresses of pages, relative to the one that is shown
    templates/      HTML; everything of others is escaped
    templates            - fills them in
    assets               style sheet, script and charts, from memory
    page_text            numbers, times and sizes as people read them
    ansi_html            a program's output as HTML: colours, and nothing else that steers
    drawing, drawn  the timeline as a picture, and those that were drawn
    job_comparison       two jobs side by side

For one job that runs, by itself:

    am_server            a process beside its application master, which starts it by name
    single_job_source    - the job, from the folder there and from what the master tells
"""
