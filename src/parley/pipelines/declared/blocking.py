"""The same pipeline for blocking code."""

from __future__ import annotations

from pathlib import Path

from parley.net.blocking import blocking, in_loop
from parley.pipelines.blocking import BlockingJob
from parley.pipelines.declared.declaration import Declaration
from parley.pipelines.declared.pipeline import AsyncPipeline
from parley.pipelines.declared.reading import read


class Pipeline(BlockingJob[AsyncPipeline]):
    """`AsyncPipeline` for blocking code: `run` blocks its thread, `stop`, `drain` and `status` may
    be called from others.

    >>> def work() -> None:
    ...     with Pipeline.from_file("orders.toml") as pipeline:
    ...         pipeline.run()
    """

    def __init__(self, declaration: Declaration) -> None:
        super().__init__("parley-pipeline", AsyncPipeline(declaration))

    @classmethod
    def from_file(cls, path: str | Path) -> Pipeline:
        """Return the pipeline of a TOML file.

        Raises ConfigError for what is wrong, with the file, the line and the nearest known key.
        """
        return cls(read(path))

    plan = blocking(AsyncPipeline.plan)
    run = blocking(AsyncPipeline.run)
    status = blocking(AsyncPipeline.status)
    verify = blocking(AsyncPipeline.verify)
    test = blocking(AsyncPipeline.test)
    records = in_loop(AsyncPipeline.records)
    drain = in_loop(AsyncPipeline.drain)
    stop = in_loop(AsyncPipeline.stop)
