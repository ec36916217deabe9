"""Side-by-side measurements against peers: ``python -m benchmarks.gradient_flow``."""
