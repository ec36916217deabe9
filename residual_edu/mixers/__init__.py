"""What lets positions exchange information: each hears the others, by attention, a long convolution, or a scan."""

__all__: list[str] = []
