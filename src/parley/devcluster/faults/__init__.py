"""Faults on request, and the journal of what clients asked.

Map: `calls` is `cluster.faults`, `faults` what waits to happen, `tampering` what it does to a
request; `asked` is what a request asks about, `requests` the journal. `cut_off` answers for a
broker that hears no other.
"""
