"""Many jobs at once: where their histories are, and a page over all of them.

    indexed_jobs               the jobs of some locations, as the pages ask for them (`web/job_source.py`)
    history_location           from what people write to where histories are; `tony.storage` has the stores

    server                     the process that `tony portal` is

Who may come in:

    listen_options             where it listens, and on which terms: what its command line says, checked
    tokens, login           tokens of users, and cookies for them

What there is, is found out:

    watching, scanner       one thread for each location: all of it now and then, what is new at once
    layouts, listings       where in a location records are; its folders' names, asked for once
    record, readers         reads one record, in bounds; many at once, each for a bounded time
    jhist, avro             records of the original
    retention, pins         which records go, and which are kept
    standing, brought       how a job stands that is not asked; records from far away, here as long as they are in use

And found again:

    index                      finds jobs among a million: a file of SQLite
    schema, marks           its tables; what of a job is searched
    index_update               puts jobs into it
    asking, filters         answers queries from it
    index_entry                one record as the index keeps it

TensorBoard on demand:

    tensorboard_routes         its pages, and who may have them
    boards, board           those that run: few, and not for long; one of them, as a process
    tensorboard_event_files    where a job's event files are, and which of them may be shown
    reverse_proxy              hands a request on to another server, and its answer back
"""
