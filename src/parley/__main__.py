"""`python -m parley` is the command `parley`."""

import sys

from parley.cli import main

if __name__ == "__main__":
    sys.exit(main())
