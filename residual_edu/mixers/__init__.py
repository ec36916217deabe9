"""What lets positions exchange information: forward(x, *, conditioning=None) or (query, key, value, *, conditioning)."""
