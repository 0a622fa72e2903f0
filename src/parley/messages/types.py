"""The types of all messages, for editors and type checkers: they read `types.pyi`.
Nothing is here at run time.
"""
