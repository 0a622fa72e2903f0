"""The command `parley`: one module per command, imported when that command is called.

This file and what `doctor` finds out are installed with `kafka-parley`, the rest of the package
with its extra `cli`.

Exit codes: 0 done; 1 something failed; 2 wrong usage or option; 3 no broker could be reached;
4 the broker cannot do what was asked; 5 topics differ (`verify`); 130 stopped with Ctrl-C.
Data goes to stdout, everything else to stderr.

Map: `app` finds commands in the table `commands`; `output`, `exit_codes`, `completion` and
`connecting` are shared. What is no command and stands beside one: `examination` and
`spark_examination` find out for `doctor`; `cluster_settings`, `cluster_security` and `cluster_ctl`
belong to `cluster`; `group_lag` and `group_reset`, with `reset_plan`, to `groups`,
`replicate_options` to `replicate`; `partition_texts` writes and reads `flights:0-2`, and
`option_texts` gives errors the names of the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Expected errors become lines on stderr.

    Without the extra `cli` there is no command: `parley doctor` reports all the same, and all else
    says what to install.
    """
    try:
        from parley.cli.app import main as run
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if error.name not in {"parley.cli.app", "typer", "rich"}:
            raise
        return _without_commands(sys.argv[1:] if arguments is None else arguments)
    return run(arguments)


def _without_commands(arguments: Sequence[str]) -> int:
    if list(arguments) != ["doctor"]:
        print(
            "parley: the command line is an extra; pip install 'kafka-parley[cli]'", file=sys.stderr
        )
        return 1
    from parley.cli import examination

    findings = list(examination.examine())
    print("\n".join(examination.report_lines(findings)))
    return 1 if any(finding.status == examination.BROKEN for finding in findings) else 0
