"""Exit codes, and which error leads to which."""

from __future__ import annotations

from enum import IntEnum

from parley.errors import (
    AlreadyRunningError,
    ConfigError,
    DataLossError,
    KafkaError,
    NetworkError,
    UnsupportedVersionError,
)


class ExitCode(IntEnum):
    """What the shell gets to see."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNSUPPORTED = 4
    DIFFERENT = 5
    DATA_LOSS = 6
    ALREADY_RUNNING = 7
    INTERRUPTED = 130


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error that ended a command.

    >>> exit_code_of(ConfigError("no such option"))
    <ExitCode.USAGE: 2>
    """
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, ConfigError):
        return ExitCode.USAGE
    if isinstance(error, AlreadyRunningError):
        return ExitCode.ALREADY_RUNNING
    if isinstance(error, DataLossError):
        return ExitCode.DATA_LOSS
    if isinstance(error, UnsupportedVersionError):
        return ExitCode.UNSUPPORTED
    if isinstance(error, NetworkError):
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED


def is_expected(error: BaseException) -> bool:
    """Return whether an error speaks for itself: anything else is a bug and keeps its traceback."""
    return isinstance(error, KafkaError | KeyboardInterrupt | OSError)
