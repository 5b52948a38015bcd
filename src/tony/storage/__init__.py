"""Files: archives, the content-addressed cache, unpacking.

On the submitter's machine:

    wishes, entries     what a job's keys ask for; the language of `files`
    scan, ignore        what is in a folder, what in it cannot be staged, what is left out (`links`, `quick_glob`)
    tracked_files          which files git tracks
    deposit, index      into the cache, reading only what changed
    cache, pack         every object once; a folder as one tar, the same bytes for the same content
    manifest               what lies in a folder, as a list
    disk_usage             where the bytes are, when they are too many
    remote, far         what lies in a cluster's file system, and what a job's keys ask for of it

Where a container is:

    localization           gives a task its source, files and Python
    trees, copying      unpacked once per node and content, then a copy for each task
    python_interpreters    Python environments: `prepare`, `relocate`, `runnable`

Archives, which come from anywhere:

    formats, members    told by content; read member by member, nothing gets out of its folder
    unpack                 into an empty folder
    expansion, xz       bounds on what a small file may become

Histories of jobs, wherever they lie:

    store                  what is needed of a file system; `local_store`, and by fsspec `fsspec_store`

What a file system answered, in words: `failures`.
"""
