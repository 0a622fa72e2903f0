"""What Spark's Python workers load stays: it need not be looked through after each task.

Spark keeps its workers, those that plan as well as those that read, and collects garbage after
every task. What pyspark, pyarrow and parley have imported by then is some 70,000 objects, none of
which ever goes away, and looking through them takes a tenth of a second of processor time per job
and process.
"""

from __future__ import annotations

import gc
import sys

_calls = 0


def settle_memory() -> None:
    """Hide what a worker holds from the garbage collector, at its second use, its fourth, its
    eighth and so on: a worker that has read may write next, and imports more for that.

    Spark has collected what the use before left behind. Does nothing in a process that is not one
    of Spark's workers: its memory is the user's.
    """
    global _calls
    _calls += 1
    doubled = _calls > 1 and _calls & (_calls - 1) == 0
    if doubled and _is_worker():
        gc.freeze()


def _is_worker() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"
