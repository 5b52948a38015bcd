"""One module per command, each with a `command`; `tony.cli.main` has their list.

What they are for:

    submit, run                                     a job begins
    cluster_submit, local_submit, notebook_submit   a job of the original begins
    status, logs, events, history, list             looking
    kill, proxy                                     a job that runs
    replay                                          for those who mend tony itself
    validate, settings, convert                     job files
    mini, completion, version                       besides
"""
