"""nbgrader's settings for everybody on the hub; `assignment` writes those of grading into the course folder."""

from pathlib import Path

c = get_config()
c.Exchange.root = "/srv/exchange"
c.CourseDirectory.course_id = "residual_edu"
c.CourseDirectory.root = str(Path.home() / "class")  # the teacher's; nobody else has one
