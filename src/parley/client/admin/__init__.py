"""Changes of the cluster, and what an operator asks it: one module per concern, with the calls and
what they return. `methods` makes methods of both clients of them.

`calls` is how a function becomes a method, `outcomes` what all of them do with errors.
"""
