"""What can go wrong with a table that rows are written into."""

from __future__ import annotations

from parley.errors.tree import KafkaError


class LakeError(KafkaError):
    """A table could not be opened, or did not take a batch; the text says why and what to do.

    Of a batch that failed nothing can be seen in the table, unless the text says that this is
    unknown: a query that is started again finds out and writes each row once.
    """
