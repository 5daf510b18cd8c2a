"""`python -m measureflow` is the command line."""

from measureflow.cli import program

if __name__ == "__main__":
    program()
