"""`measureflow bench`: kernel sums timed beside what a user would pick instead."""
