"""`python -m measureflow.cli`: the command line where the program is not on the path."""

from measureflow.cli import program

program()
