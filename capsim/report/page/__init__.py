"""The page of a run folder: one HTML file that needs nothing else, drawn from the folder's JSON alone."""
