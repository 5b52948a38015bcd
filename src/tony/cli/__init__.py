"""The command line: the commands in `commands/`, and what several of them share.

`startup` runs before anything slow is imported; `main` runs the command and maps every error to an exit code.
`submission` and `following` are shared by `submit` and `run`, `open_job` by all commands that read a job.

`text/` has one module for each kind of report. `terminal/` writes: `output` (lines and JSON), `terminal_text` (makes
log lines safe, fits lines to the terminal), `live_status` (the table below the output), `live_top`.
"""
