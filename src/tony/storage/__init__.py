"""Files: staging, archives, the content-addressed cache, unpacking, and the stores of histories.

On the submitter's machine `staging/staging_requests` collects what the job's keys name, `folder_scan` and
`ignore_rules` decide which files are staged (`git_tracked_files`: those tracked by git always are),
`cache/cache_ingest` puts them into `object_cache` by digest and reads only what changed (`digest_index`).
`staging/remote_sources` handles files that are already in a cluster's file system.

On the node `environments/localization` gives a task its source, files and Python: `cache/unpack_cache` unpacks once per
node and content, `file_copy` copies for each task, `environment_setup` makes a Python environment usable.

Archives are untrusted: `archives/archive_detection` detects them by content, `archive_members` keeps every member
inside its folder.

`stores/store_interface` is the interface to the file systems of histories: `local_store`, and `fsspec_store` for all
others.
"""
