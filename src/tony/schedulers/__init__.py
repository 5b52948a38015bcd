"""The seam to cluster managers, and one module or package for each of them."""
