"""Drawing: functions that take plain arrays and an axes, draw, and return the axes. No torch here."""
