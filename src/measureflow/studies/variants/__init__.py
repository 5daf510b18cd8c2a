"""Kinds of attention: whose solutions exist for all times, and whose blow up."""
