"""The folder in which the runs of a pipeline know of each other."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

import pytest

from parley.errors import AlreadyRunningError, ConfigError
from parley.pipelines.declared.state import State


@pytest.mark.parametrize("name", ["lock", "drain"])
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "v1").mkdir(parents=True)
    state = State(tmp_path)
    with pytest.raises(ConfigError, match=f"{name} is a folder"), state.locked():
        pass
    with pytest.raises(ConfigError, match="delete it if nobody needs it"):
        state.is_running()
    with pytest.raises(ConfigError, match="delete it if nobody needs it"):
        state.ask_to_drain()
    (tmp_path / name).rename(tmp_path / "other")
    with state.locked():
        assert state.is_running()
    assert not state.is_running()


@pytest.mark.parametrize("is_old_there", [False, True])
def test_a_run_that_is_asked_to_end_while_it_begins_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_old_there: bool
) -> None:
    state, asked = State(tmp_path), []
    if is_old_there:  # of a run that was gone when it was asked
        (tmp_path / "drain").touch()
        os.utime(tmp_path / "drain", (1, 1))
        with state.locked():
            assert not state.is_asked_to_drain()
        (tmp_path / "drain").touch()
        os.utime(tmp_path / "drain", (1, 1))

    def name() -> str:  # asked for when the lock is taken
        asked.append(State(tmp_path).ask_to_drain())
        return "here"

    monkeypatch.setattr(socket, "gethostname", name)
    with state.locked():
        assert state.is_asked_to_drain() == asked[0]
        assert asked == [True]


def test_who_only_asks_does_not_keep_a_run_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, pauses = State(tmp_path), []
    with state.locked():
        pass
    with (tmp_path / "lock").open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)  # as one that looks, in the middle of it

        def has_looked(pause_s: float) -> None:
            pauses.append(pause_s)
            fcntl.flock(asking, fcntl.LOCK_UN)

        monkeypatch.setattr(time, "sleep", has_looked)
        with state.locked():
            assert state.is_running()
            assert len(pauses) == 1
            with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()}"), state.locked():
                pass
        assert len(pauses) == 1, "a run is not waited for"
        assert not state.is_running()


def test_who_never_ends_asking_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(tmp_path)
    with state.locked():
        pass
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with (tmp_path / "lock").open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        with pytest.raises(AlreadyRunningError), state.locked():
            pass
