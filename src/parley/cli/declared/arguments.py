"""What the commands of declared pipelines share. Their help describes both arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", hidden=True, dir_okay=False)]
FlowsArgument = Annotated[list[str] | None, typer.Argument(metavar="FLOW", hidden=True)]
