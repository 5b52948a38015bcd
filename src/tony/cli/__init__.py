"""The command line: one file per command in `commands/`; what several commands share lies here.

`entry` runs before anything slow is imported; `main` finds the command and turns every way to end into an exit code.
`submission` and `following` are shared by `submit` and `run`, `portal_option` by all commands with `--portal URL`,
`legacy_commands` by the commands for jobs of LinkedIn TonY.

Output: `output` (lines and JSON), `terminal_text` (sanitises foreign text, fits ours), `follow_view` with `story`
(what changed), `live_status` and `live_region` (the table below the output), `log_printer`, and one module for each
kind of report: `status_text`, `timeline_text`, `metrics_table`, `top`, `compare_text`, `event_text`.
"""
