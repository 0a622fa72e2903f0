"""Write docs/proof/leadership/transitions.md: which rule
of the leadership machine came after which, how often.

    python tools/write_transitions.py    # what the document was written from; some minutes
    python tools/write_transitions.py --worlds 3 --steps 20 --output /tmp/transitions.md

Two runs are counted together: a walk in which every rule follows every other one, and worlds whose
steps hypothesis chooses. Whatever must hold is checked after each step; a failure ends the run and
leaves the document as it is.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MACHINE = ROOT / "tests" / "property" / "test_leadership_machine.py"
DOCUMENT = ROOT / "docs" / "proof" / "leadership" / "transitions.md"
WORLDS, STEPS, SEED = 400, 80, 1

TEXT = """\
# Transitions of the leadership state machine

`tests/property/test_leadership_machine.py` \
drives a producer, a consumer and a cluster of three brokers in virtual
time. A rule is one thing that is done to them; \
any rule may follow any other one, and any may begin a world. After each
step it is checked that leader epochs have not gone backwards \
and that refreshes are bounded; at each `quiet`, and at
the end of each world, that no acknowledged record is lost silently, \
none is there twice, each partition is in order,
and the reader is in the history that counts. \
An unclean election excuses what the elected replica did not have, and
what brokers took afterwards that had not heard of it; nothing else.

{summary}

How often the rule of a column came after that of a row:

{table}

{uncovered}

Written by the command, not by hand: `{command}`. \
It takes some minutes; a test of the suite runs it in small
(`--worlds 2 --steps 10`). The worlds alone, without the document:
`python -m pytest -m long tests/property/test_leadership_machine.py -k twenty`. \
A failure prints the steps that led to
it and the seed of the world, which make it again.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--worlds", type=int, default=WORLDS, help="that hypothesis chooses (default: %(default)s)"
    )
    parser.add_argument(
        "--steps", type=int, default=STEPS, help="of each world (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the walk (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=DOCUMENT)
    given = parser.parse_args(arguments)
    machine = load_machine()
    machine.COVERAGE.__init__()
    machine.walk(given.seed)
    machine.explore(given.worlds, given.steps, same_each_time=False)
    command = (
        f"python tools/write_transitions.py --worlds {given.worlds} --steps {given.steps} --seed "
        f"{given.seed}"
    )
    given.output.write_text(document(machine.COVERAGE, command), encoding="utf-8")
    print(machine.COVERAGE.text())
    return 0


def load_machine() -> Any:
    """Return the state machine's module; tests are no package."""
    spec = importlib.util.spec_from_file_location("parley_leadership_machine", MACHINE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def document(coverage: Any, command: str) -> str:
    """Return the document's text."""
    missing = [f"`{before}` → `{after}`" for before, after in coverage.uncovered()]
    return TEXT.format(
        summary=f"{coverage.steps:,} steps; {len(coverage.pairs)} of {coverage.possible} "
        f"transitions between {len(coverage.done)} rules.",
        table=coverage.table(),
        uncovered=f"Not seen: {', '.join(missing)}." if missing else "None is missing.",
        command=command,
    )


if __name__ == "__main__":
    sys.exit(main())
