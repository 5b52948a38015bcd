"""Settings: one table of all settings, the loaders, and the source of each value.

`table/settings_table` has every setting once; `schema_tree` finds one by its key, `settings_doc` prints them for
people.

`load` makes a `JobSpec`. In `files/`, `file_reader` reads job and site files, `overrides` flags and environment,
`call_settings` calls from Python; `site_policy` has the administrators' defaults, final values and limits. In `table/`,
`layers` merges them; `converted_settings` and `value_conversion` make each value canonical and record every error with
its source. `checks/` check combinations of values; `spec_builder` builds the spec. `legacy/` translates `tony.xml` and
flags of LinkedIn TonY.
"""
