"""One module per command, each with a `command`; `tony.cli.main` has their list.

What they are for:

    submit, run                                     a job begins
    cluster_submit, local_submit, notebook_submit   a job of the original begins
    status, logs, events, history, list             looking
    timeline, metrics, top, compare, open           looking back, at numbers, in a browser
    advise, waste                                   what could be cheaper
    kill, restart, stacks, log_level, proxy         a job that runs
    portal, login                                   pages, and who may see them
    pin, purge                                      records that stay, records that go
    trace                                           a job's life for other tools
    replay                                          for those who mend tony itself
    validate, settings, convert                     job files
    mini, completion, version                       besides
"""
