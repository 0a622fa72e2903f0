"""The command `parley`: one module per command, imported when that command is called.

Exit codes: 0 done; 1 something failed; 2 wrong usage or option; 3 no broker could be reached;
4 the broker cannot do what was asked; 130 stopped with Ctrl-C.
Data goes to stdout, everything else to stderr.
"""

from parley.cli.app import main

__all__ = ["main"]
