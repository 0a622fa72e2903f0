"""What a query's checkpoint says, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from parley.spark.values.offsets import Offsets


def committed(checkpoint: Path) -> Offsets | None:
    """Return where a query is after its last batch; None where it has none.

    Raises ConfigError for a checkpoint of another source.
    """
    try:
        batch = max(int(one.name) for one in (checkpoint / "commits").iterdir() if _is_batch(one))
        lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        found = json.loads(lines[-1])
    except (OSError, ValueError):
        return None  # none yet, or Spark is about to write it
    return Offsets.from_json(found)


def _is_batch(file: Path) -> bool:
    return file.name.isdecimal()
