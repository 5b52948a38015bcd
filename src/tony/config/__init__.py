"""Settings: one table of all settings, the loaders, and the source of each value.

`settings_table` has every setting once; `settings_tree` finds one by its key, `settings_doc` prints them for people.

`load` makes a `JobSpec`: `file_reader` reads job and site files, `overrides` flags and environment, `call_settings`
calls from Python; `layers` merges them; `value_table` and `convert` make each value canonical and record every error
with its source; `cross_checks` and `plugin_checks` check combinations of values; `spec_builder` builds the spec.
`site_policy` has the administrators' defaults, final values and limits. `legacy/` translates `tony.xml` and flags of
LinkedIn TonY.
"""
