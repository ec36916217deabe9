"""What a recorder measures, against autograd in float64; ways to run a network; no hook is left."""
