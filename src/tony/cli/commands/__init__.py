"""One module per command, each with a `command`; `tony.cli.main` has their list.

submit, run                                     submit a job
cluster_submit, local_submit, notebook_submit   submit a LinkedIn TonY job
status, logs, events, history, list             show jobs
timeline, metrics, top, compare, open           show timelines, metrics, web pages
advise, waste                                   recommend and report savings
kill, restart, stacks, log_level, proxy         act on a running job
portal, login                                   serve web pages, authenticate
pin, purge                                      keep or delete history
trace, replay                                   export a trace, verify an event log
validate, settings, convert                     job files
mini, completion, version                       everything else
"""
