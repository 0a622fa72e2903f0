"""What can go wrong with a job as a whole."""

from __future__ import annotations

from parley.errors.tree import KafkaError


class AlreadyRunningError(KafkaError):
    """Another process runs this pipeline: `parley drain` ends that run, or wait for it."""


class JobError(KafkaError):
    """A streaming query of Spark ended by itself; the text holds its reason and where the whole log
    is.
    """


class DiskFullError(KafkaError):
    """The disk that a job's output lies on is full: make room, and run the job again."""
