"""What checks an answer: its properties, the guard around it, what is observed, and how that is said."""
