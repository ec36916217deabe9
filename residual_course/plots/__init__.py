"""Functions that draw arrays on a matplotlib axes and return it. No torch here."""
