"""What a recorder measures, against autograd in float64; what it lives through; that it leaves no hook behind."""
