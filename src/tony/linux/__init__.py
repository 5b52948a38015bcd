"""What the kernel offers: processes, control groups, ports, limits. Standard library only; knows nothing of jobs.

Files that another user may have put in place are opened by `plain_files` and judged by `ownership`, without following
links. Blocking work runs in the lanes of `threads`.
"""
