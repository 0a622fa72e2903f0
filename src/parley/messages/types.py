"""The types of all messages for editors and type checkers, in `types.pyi`; empty at run time."""
