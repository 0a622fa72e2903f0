"""The limit on open files: raised where it is too low, left where it is not, and
a refusal says what to do.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource
from parley.host import raise_descriptor_limit
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1024))
print(raise_descriptor_limit(200), resource.getrlimit(resource.RLIMIT_NOFILE))
print(raise_descriptor_limit(512), resource.getrlimit(resource.RLIMIT_NOFILE))
print(raise_descriptor_limit(4000))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_as_far_as_the_hard_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    enough, raised, refused, left = done.stdout.splitlines()
    assert enough == "None (256, 1024)"
    assert raised == "None (512, 1024)"
    assert "may have 1,024 files and sockets open and would need about 4,000" in refused
    assert "the hard limit is 1024" in refused
    assert "ulimit -n 4000" in refused
    assert left == "(1024, 1024)"
