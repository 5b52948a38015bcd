"""What tony takes along to nodes where it is not installed: itself, its pages, a Python, and plug-ins."""
