"""Many jobs at once: finds their histories, indexes them, and serves the pages of `tony.web` over all of them.

`server` is the process of `tony portal`; `listen_options` and `tokens` have its address and its users.

`history_location` opens a location, `history_layouts` knows where in it job directories are. `scanner` and
`scan_threads` look for new ones, `record_reader` reads one within bounds, `jhist_reader` and `avro` those of LinkedIn
TonY. `index` (SQLite: `index_schema`) finds jobs among a million: `index_update` writes, `index_query` reads.
`indexed_jobs` answers the pages; `record_cache` keeps copies of remote records, `status_from_log` the status of jobs
that are not asked.

`tensorboard_manager` starts TensorBoards on demand and `reverse_proxy` forwards requests to them.
`retention` and `pin_files` decide which records are purged.
"""
