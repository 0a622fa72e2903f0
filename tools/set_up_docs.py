"""Make the environment of `make docs`: mkdocs, its theme, and what the reference is made with.

parley itself is read from src/: no kernel is built, and neither Spark nor a Java is needed. A
second run with nothing changed takes no time.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import set_up
from set_up import ROOT, SetUpError

ENVIRONMENT = ".venv-docs"
EXTRA = "cli"
"""The extra whose packages the reference is made with. What is parley's own runs from src/."""


def main() -> int:
    os.chdir(ROOT)
    try:
        make(ROOT / ENVIRONMENT)
    except SetUpError as error:
        print(f"parley set-up: {error}", file=sys.stderr)
        return 1
    return 0


def make(environment: Path) -> None:
    """Make or repair the environment, unless its stamp says that it is as wanted."""
    wanted = requirements()
    pinned = set_up.CONSTRAINTS.read_bytes()
    fingerprint = (
        f"{hashlib.sha256(repr(wanted).encode() + pinned).hexdigest()} {sys.version_info[:2]} "
        f"{ROOT}\n"
    )
    stamp = environment / ".parley-set-up"
    if (
        stamp.is_file()
        and stamp.read_text() == fingerprint
        and (environment / "bin" / "python").exists()
    ):
        return
    stamp.unlink(missing_ok=True)
    set_up.make_environment(environment)
    set_up.say("installing mkdocs and its theme")
    set_up.run(set_up.pip(environment, "install", "--prefer-binary", *wanted), "mkdocs")
    stamp.write_text(fingerprint)
    set_up.say(f"{environment.name} is ready")


def requirements() -> list[str]:
    """Return the documentation's tools, and what parley needs to be imported,
    its command line included.
    """
    project = set_up.read_project()
    extra = project["tool"]["parley"]["extras"][EXTRA]
    needed = [*project["dependency-groups"]["docs"], *project["project"]["dependencies"], *extra]
    return sorted({one for one in needed if not one.startswith("kafka-parley")})


if __name__ == "__main__":
    sys.exit(main())
