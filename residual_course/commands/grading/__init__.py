"""nbgrader over a class: one process and one database for each submission, its kernel alone inside bubblewrap."""
