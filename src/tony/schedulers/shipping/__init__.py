"""Archives for nodes without tony: the package itself, its pages, a Python, and plug-ins."""
