"""Files: staging, archives, the content-addressed cache, unpacking, and the stores of histories.

On the submitter's machine `staging/` collects what the job's keys name and puts it into `cache/object_cache` by digest,
reading only what changed. On the node `environments/localization` gives a task its source, files and Python: unpacked
once per node and content, copied for each task. Archives are untrusted: `archive_members` keeps every member inside its
folder. `stores/` has the file systems of histories.
"""
