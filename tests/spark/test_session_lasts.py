"""The session that these tests share: a test that was interrupted in it,
and one that lost its Java.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ..support import GENEROUS_S, sparks


class Late(BaseException):
    """What a test's time limit raises is no Exception either."""


def interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise Late


def test_a_call_that_was_interrupted_does_not_spoil_those_that_follow(spark: Any) -> None:
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(Late) as caught:  # pytest keeps it, and so the connection
            spark._jvm.java.lang.Thread.sleep(1_000)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not sparks.answers(spark), "each call gets the answer of the one before"
    assert caught.traceback
    assert sparks.usable(spark, suspect=True)
    assert sparks.answers(spark)
    assert spark.range(3).count() == 3
    spark.read.format("parley").load()  # the data source is found as before


LOSES_ITS_JAVA = """
def test_1(spark): assert spark.range(3).count() == 3
def test_2(spark): spark.sparkContext._gateway.proc.kill(); spark.sparkContext._gateway.proc.wait()
def test_3(spark): assert spark.range(4).count() == 4
"""


@pytest.mark.kills
def test_a_session_whose_java_was_killed_is_replaced(tmp_path: Path) -> None:
    folder = Path(__file__).parent
    own = tmp_path / "test_it.py"
    own.write_text(LOSES_ITS_JAVA)
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_configure\nfrom tests.spark.conftest import spark\n"
    )
    paths = (str(folder.parents[1]), os.environ.get("PYTHONPATH", ""))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider",
         own.name],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=2 * GENEROUS_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout + done.stderr
