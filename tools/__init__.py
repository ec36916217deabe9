"""What an author runs from a clone; none of it is installed."""
