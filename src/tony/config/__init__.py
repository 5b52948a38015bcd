"""Settings: one table of all, the loaders, and where each value came from.

`settings_table` has every setting once; `settings_tree` finds one by its key, `settings_doc` prints them for people.

`load` makes a `JobSpec`: `file_reader` reads job and site files, `overrides` flags and environment, `call_settings`
calls from Python; `layers` lays them over each other; `value_table` and `convert` make each value canonical and note
every error with its place; `cross_checks` and `plugin_checks` find what no single value shows; `spec_builder` builds
the spec. `site_policy` has the administrators' defaults, final values and limits. `legacy/` does the same for
`tony.xml` and the flags of LinkedIn TonY.
"""
