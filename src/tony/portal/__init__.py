"""The portal: finds job histories, indexes them, and serves the pages of `tony.web` over all of them.

`server` is the process of `tony portal`; `access/` has its address and its users.

`histories/`: `history_locations` opens a location, `history_layouts` finds the job directories in it. `scanner` and
`scan_threads` look for new ones, `record_reader` reads one within bounds, `jhist_reader` and `avro` those of LinkedIn
TonY. `job_dir_copies` keeps copies of remote job directories; `retention` decides which are purged.
`job_index/` finds jobs among a million (SQLite: `index_schema`): `index_writer` writes, `index_query` reads.
`indexed_jobs` provides jobs for the pages.
`tensorboard/`: `tensorboard_manager` starts TensorBoards on demand and `reverse_proxy` forwards requests to them.
"""
