"""What would make a job cheaper or safer: findings with their evidence, what they save, and the change to the job file.

What they go by:

    facts               one run of a job, and the runs before it; pure
    exit_facts          what the event log tells besides the timeline: ends of programs, failures
    gpus                the devices of a role
    facts_loader        the same from the folders of a home

What is found:

    recommendation      nouns: finding, evidence, saving, change
    heuristic           what a heuristic is: a table of thresholds, a help text, a look at facts
    findings/   one a file
    failing, saving_often   how often a job fails and is saved, and which value of its file says that
    registry            all of them, and what other packages bring (entry points `tony.advice`)
    engine              the door: facts -> advice
    unused_resources    hours that nobody had anything of, by user and week; pure

What becomes of it:

    words, pages   numbers for people; the help pages
    patch               changes as text, and in the text of a job file, whose comments and order stay
    owned, applying   whether a file is the job's; changes written into it
"""
