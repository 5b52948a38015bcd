"""The command line: one file per command in `commands/`, and what several commands share.

`entry` runs before anything slow is imported; `main` runs the command and maps every error to an exit code.
`submission` and `following` are shared by `submit` and `run`, `portal_option` by all commands with `--portal URL`,
`legacy_commands` by the commands for jobs of LinkedIn TonY.

Output: `output` (lines and JSON), `terminal_text` (sanitises untrusted text, fits lines to the terminal),
`follow_view` with `story` (status changes), `live_status` and `live_region` (the table below the output),
`log_printer`, and one module for each kind of report: `status_text`, `timeline_text`, `metrics_table`, `top`,
`compare_text`, `event_text`.
"""
