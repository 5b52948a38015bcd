"""One module per command, each with a `command`, and three of several commands; `tony.cli.main` has their list.

submit, run                              submit a job
legacy_submit                            submit a LinkedIn TonY job: cluster-, local-, notebook-submit
status, logs, events, history, list      show jobs
timeline, metrics, top, compare, open    show timelines, metrics, web pages
advise, waste                            recommend and report savings
job_requests, stacks, proxy              act on a running job: kill, restart, log-level...
portal, login                            serve web pages, authenticate
retention                                keep or delete history: pin, purge
trace, replay                            export a trace, verify an event log
validate, settings, convert              job files
mini, completion, version                everything else
"""
