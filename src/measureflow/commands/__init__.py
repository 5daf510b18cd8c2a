"""Commands: a folder for each, with its schema, its job and its report. `runs/command.py` has their table."""
