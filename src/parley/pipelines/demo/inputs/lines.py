"""Binary files as numbered lines of text."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from parley.pipelines.demo.inputs.model import InputError


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, or the one file inside a `.zip`."""
    if path.suffix != ".zip":
        with path.open("rb") as plain:
            yield plain
        return
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                raise InputError(
                    path, None, f"the archive holds {len(names)} files; one is expected"
                )
            with archive.open(names[0]) as inside:
                yield inside
    except zipfile.BadZipFile as error:
        raise InputError(path, None, f"not a usable zip archive ({error})") from error


def text_lines(path: Path, binary: IO[bytes]) -> Iterator[str]:
    """Yield the lines as text with their ends. InputError has the line that is not UTF-8."""
    for number, line in enumerate(binary, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                path, number, f"not UTF-8 text (byte 0x{line[error.start]:02x})"
            ) from error
