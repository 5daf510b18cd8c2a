"""Clusters under causal attention: who leads, who stays, who is remembered."""
