"""Listeners that want TLS, a login, or both.

Map: `security` is what a listener wants, `listeners` all of a cluster, `certificates` a throw-away
authority.
"""
