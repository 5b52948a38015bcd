"""Jobs of the original TonY: its settings file and its flags, as a job of ours.

    flags, settings     what was said: the command line; XML files, site file, `--conf`
    keys, values        every setting of the original in one table; how its values are written
    translate          the way from those to the values of our job file, in the order of the parts:
    unknown, shape      settings that nothing is made of; which types of tasks there are
    job, command        what holds for all; what the tasks run
    roles, results      what each type has; how each counts in the result, and what it waits for
    files, cluster      what containers get; queue, labels, Docker
    special, limits     tasks that the original makes itself; the most that a job may ask for
    warnings           what would be found out only when the tasks run, or never
    draft_job          what comes of it: values, their places, notes, mistakes
    job_loader         the door: flags -> a job without mistakes
    job_file_writer    the text of a job file, with comments
    final_xml          a finished job of the original, from the settings that it left
    settings_doc       all of it as a page of the docs

Behind that a job is one like any other: `tony.config.load` checks it and says what is wrong.
"""
