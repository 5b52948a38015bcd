"""The scheduler `kubernetes`: an AM in a Job of one pod, and a pod for each task. See docs/decisions/0023.

client       submitter, job_checks, access_rules, job_files, object_upload, job_secrets, port_forward, job_end,
             am_start_failure
AM           am_container, allocator: its pods; am_pod: whether it is the current one; gangs, pod_groups, kueue
executor     executor_container
all of them  settings, launch_payload; pod_status: what the status of a pod says
objects      manifests, of pod_settings, pod_template, pod_volumes, pod_command
large files  staging_location and staging_*, *_upload: a location of each kind, and how the client sends to it
HDFS         hadoop_access, job_tokens, am_tokens; history_location: histories
portal       namespace_store
"""
