"""Archives for nodes without tony: the package itself, its pages, a Python, and plug-ins."""

#: Prefix of the names of the two zips in the archive of web pages.
PAGES_ARCHIVE = "pages"
#: Value of a setting for the nodes' Python that ships the submitter's own interpreter.
OWN_PYTHON = "own"
#: Folder of the sources in the zip of tony's modules.
SOURCES = "sources"
