"""Faults on request, and the journal of what clients asked."""
