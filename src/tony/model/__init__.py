"""Nouns: frozen values that every part speaks of. No I/O, no decisions.

What runs:

    job, ids, states            what to run; names; the words for where jobs, tasks and roles stand
    cluster, container_env      who listens where; variables of containers
    placeholders, staged        what is filled in, what is laid down
    masking                     which names mean secrets, and stars in their place
    exit, metrics               how programs end, what is measured of them

What is told of it:

    record, report, layout      who submitted what; how it stands; where everything lies
    head, query                 a job among many; which of many are wanted
    amounts, task_ranges        what was measured, many tasks; in words
    progress                    how far programs are: rate, remaining time, stalls

    codec, json_text            between all of these and JSON
"""
