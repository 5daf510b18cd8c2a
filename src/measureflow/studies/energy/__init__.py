"""Which attention is the gradient flow of an energy, and what that energy looks like."""
