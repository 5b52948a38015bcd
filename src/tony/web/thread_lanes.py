"""Thread lanes of a web server: each kind of blocking work that could hold up others has its own threads.

Jobs of the server's own user are read in the default lane of `tony.linux.thread_pools.to_thread`.
"""

from __future__ import annotations

from tony.linux.thread_pools import Lane

#: Logins, groups and the job index: local files of the portal, so that a list never waits for a job directory.
LISTS = Lane("the list of jobs", 15.0)
#: File systems and servers that a history or a job names.
STORES = Lane("a file system on other machines", 30.0)
