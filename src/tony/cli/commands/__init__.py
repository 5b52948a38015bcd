"""One module per command, each with a `command`; `tony.cli.main` has their list.

    submit, run                                     a job begins
    cluster_submit, local_submit, notebook_submit   a job of the original begins
    status, logs, events, history, list             looking
    kill, proxy                                     a job that runs
    replay                                          for those who mend tony itself
    validate, settings                              job files
    mini, completion, version                       besides
"""
