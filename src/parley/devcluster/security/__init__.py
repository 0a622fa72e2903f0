"""Listeners that want TLS, a login, or both."""
