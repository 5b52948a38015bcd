"""Pages and a JSON API over jobs: an ASGI library. The portal serves it for many jobs, a running job for itself.

    source          what pages ask: many jobs, one job, its parts; whoever has them implements it
    gate            who may see and change what, as pages ask it; and so it is found out:
    door            - the gate of a real server: whose connection, whose token, which proxy
    visitors        - somebody who was let in, and what a job lets them do
    failures        - wrong tokens, counted
    lanes           threads for each kind of blocking work, so that a list is never behind a record
    advising        advice about a job, from what a source tells
    wasting         - what was held for nothing, by user and week
    masking         stars in place of what looks like a secret
    api/            the JSON API; its map is there
    prometheus      the jobs that run, as numbers for a collector
    app             the application: addresses, headers, errors
    serve           runs it in uvicorn
    home_source     the jobs of one user's home, without an index
    choosing        - which of them are wanted, in which order
    folder_view     one job, from its folder and its application master
    folder_logs     - its logs, by bytes; near_logs: those that are brought from other machines first

What is shown:

    pages/          one module per page: reads the address, asks the source, fills a template
    asked           a request for one: who asks, for what
    links           addresses of pages, relative to the one that is shown
    templates/      HTML; everything of others is escaped
    rendering       - fills them in
    assets          style sheet, script and charts, from memory
    text            numbers, times and sizes as people read them
    terminal        a program's output as HTML: colours, and nothing else that steers
    drawing, drawn  the timeline as a picture, and those that were drawn
    comparing       two jobs side by side

For one job that runs, by itself:

    beside          a process beside its application master, which starts it by name
    one_source      - the job, from the folder there and from what the master tells
"""
