"""`python -m measureflow` is the command line."""

import sys

from measureflow.cli import main

if __name__ == "__main__":
    sys.exit(main())
