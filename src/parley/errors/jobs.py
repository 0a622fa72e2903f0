"""What can go wrong with a job as a whole."""

from __future__ import annotations

from parley.errors.tree import KafkaError


class AlreadyRunningError(KafkaError):
    """Another process runs this pipeline: `parley drain` ends that run, or wait for it."""
