"""The command line: one file per command, below `commands/`.

The front door:

    entry, early            before anything is imported that takes time; Ctrl-C in the first moments
    main, help              finds the command; every way to end becomes an exit code
    options, streams        what commands share; our standard streams, whatever our parent made of them
    submitting, following   what `submit` and `run` share: to an exit code, to the job's end
    portal_option    what `--portal URL` does
    original, settings_here what the commands of the original share; a settings file in HDFS

What is shown:

    output, text            lines and JSON; foreign text made harmless, ours made to fit
    standing, status_page   how a job stands now, as a page
    follow_view      how a followed job looks:
    story            - what changed, in lines
    live_view, live_table   - a table below the output, on a terminal; `redrawn` puts it there
    log_printer      programs' output, each line with its task
    event_text       events in words
    timeline_text    what each task was doing when, as a picture of text
    metrics_table, sparks   what was measured
    top, top_table          what is used now; `pressed` are its keys
    compare_text     two jobs side by side
    browser          how a browser elsewhere reaches a port here
"""
