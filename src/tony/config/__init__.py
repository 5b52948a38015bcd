"""One table of settings, the loaders, and where each value came from.

    settings_table       the table: every setting once
    schema, table       the same as a tree, for finding; as text, for people

From what is said to one job (`load`):

    files, yaml_text, toml_lines    job and site files
    flags, arguments                the environment, options, calls from Python
    site, site_files                defaults, final values and limits of a site
    layers               all of these laid over each other, each value knowing its place
    sheet, convert, after           each value made canonical, every mistake noted
    paths, addresses                paths of this machine, and what lies in a cluster's file system
    check, providers                mistakes that no single value shows; what framework and scheduler say
    elastic_roles        roles that may have fewer tasks than they ask for
    spec_builder         the JobSpec
    original             jobs of the original TonY: XML and flags -> values as a job file has them; a package
    hints                what is worth knowing of settings, and is no mistake

Showing it again:

    resolved, show      each value with its place; a value on one line
    suggest              what somebody probably meant
    secret_names         what is nobody's business
    secret_references    secrets that lie elsewhere, looked up at submission
"""
