"""What checks an answer: its properties, the guard around it, what is observed, and how that is said.

To read: ``check``, which the lessons call, then ``judge``, ``guard``, ``report``; ``exercise`` is what one is made of.
"""
