"""Translates jobs of LinkedIn TonY, its settings file and its flags, into a job file.

`translate` is the entry: flags in, a draft of a valid job out. `flags` and `settings_sources` read the command line,
XML files and `--conf`; `keys` is the table of all settings; `draft_job` has the settings and what becomes of them.
`task_types`, `roles`, `file_settings`, `yarn_settings` and `draft_checks` are the parts. `job_file_writer` prints the
draft as a job file with comments, `finished_job` reads what a finished job left.

`tony.config.load` then checks the job like any other.
"""

#: What the commands of LinkedIn TonY set in each job.
TO_CLUSTER = {"scheduler": "yarn"}
#: The setting that names the folder with the configuration of the cluster.
CLUSTER_CONF = "scheduler.yarn.conf"
