"""How much attention changes with the query, the tokens and their law."""
