"""`parley verify FILE`: the flows of a pipeline that compare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from parley.cli.connecting import run as run_async
from parley.pipelines.declared import AsyncPipeline
from parley.pipelines.verify import Verification


def verified(file: Path, flows: list[str]) -> Mapping[str, Verification]:
    """Return what each flow of a file has found."""
    return run_async(_verified(file, flows))


async def _verified(file: Path, flows: list[str]) -> dict[str, Verification]:
    async with AsyncPipeline.from_file(file) as pipeline:
        return await pipeline.verify(flows or None)
