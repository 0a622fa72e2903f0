"""Java programs beside a test: classes out of Maven artifacts, run until the test is through."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from parley.testing.realbroker.artifacts import class_path
from parley.testing.realbroker.java import java_command

from .patience import GENEROUS_S

LOGGER = "org.slf4j:slf4j-simple:1.7.36"


def properties_file(path: Path, properties: Mapping[str, str]) -> str:
    """Write a properties file and return its path, as programs take it."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return str(path)


@contextmanager
def java_running(
    artifacts: Sequence[str], main: Sequence[str], output: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a main class with its arguments; at the end it is asked to stop, and must do so.

    A program that has ended before the test was through fails the test, with what it printed.
    """
    command = java_command(class_path((*artifacts, LOGGER)), main, heap_mb=256)
    with (
        output.open("ab") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield process
            assert process.poll() is None, f"{main[0]} ended by itself:\n{output.read_text()}"
        except AssertionError as error:
            error.add_note(f"{main[0]} printed:\n{output.read_text()[-4000:]}")
            raise
        finally:
            process.terminate()  # its shutdown hooks run: members leave their groups
            try:
                process.wait(GENEROUS_S)
            finally:
                process.kill()
