"""What a lesson imports besides the library: its kit, plots, explorers, exercises and data, and the commands."""

from residual_course.newer import listen

listen()
