"""Linux facilities: processes, control groups, ports, limits. Standard library only; independent of jobs.

Files that another user may have placed are opened and checked by `files`, without following links. Blocking work
runs in the lanes of `thread_pools`.
"""
