"""The folder in which the runs of a pipeline know of each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.errors import ConfigError
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
