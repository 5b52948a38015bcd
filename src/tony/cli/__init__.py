"""The command line: the commands in `commands/`, and what several of them share.

`startup` runs before anything slow is imported; `main` runs the command and maps every error to an exit code.
`submission` and `submission_follower` are shared by `submit` and `run`, `open_job` by all commands that read a job.

`plain_status` (lines), `live_status` (the table below the output) and `live_top` show a followed job. `text/` has one
module for each kind of report. `terminal/` writes: `output` (lines and JSON), `terminal_text` (makes log lines safe,
fits lines to the terminal), `live_region` (lines that are drawn again).
"""
