"""The set-up: which Python, what an environment depends on, and what it refuses to touch."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture
def set_up() -> ModuleType:
    spec = importlib.util.spec_from_file_location("set_up", TOOLS / "set_up.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def find_python(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", TOOLS / "find_python.sh"], capture_output=True, text=True, check=False,
        env={"PATH": str(folder), **environ},
    )  # fmt: skip


OLD = '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.8.1 && exit 0\nexit 1\n'
GOOD = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
WITHOUT_VENV = f'#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexec "{sys.executable}" "$@"\n'


def test_the_first_python_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    executable(tmp_path / "python3", OLD)
    executable(tmp_path / "python3.13", OLD)  # a shim that stands for nothing fails like this, too
    executable(tmp_path / "python3.12", GOOD)
    found = find_python(tmp_path)
    assert (found.returncode, found.stdout.strip()) == (0, sys.executable)


def test_the_one_that_is_named_comes_first(tmp_path: Path) -> None:
    executable(tmp_path / "python3", OLD)
    named = executable(tmp_path / "elsewhere" / "my-python", GOOD)
    assert find_python(tmp_path, PYTHON=str(named)).returncode == 0


def test_without_one_the_message_says_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    executable(tmp_path / "python3", OLD)
    found = find_python(tmp_path)
    assert found.returncode == 1
    assert "Python 3.11 or later is needed; found Python 3.8.1" in found.stderr
    assert "make PYTHON=" in found.stderr


def test_a_python_without_venv_is_named_with_the_package_to_install(tmp_path: Path) -> None:
    executable(tmp_path / "python3", WITHOUT_VENV)
    found = find_python(tmp_path)
    assert (found.returncode, "python3-venv" in found.stderr) == (1, True)


def test_an_environment_depends_on_cargo_and_on_the_release_of_spark(
    set_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    without = set_up.fingerprint("4.3.0")
    assert without == set_up.fingerprint("4.3.0")
    assert without != set_up.fingerprint("4.2.0")
    executable(tmp_path / "cargo", "#!/bin/sh\n")
    assert without != set_up.fingerprint("4.3.0")


def test_a_folder_that_is_no_environment_is_not_replaced(
    set_up: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(set_up.SetUpError, match="is not a virtual environment"):
        set_up.make_environment(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_an_environment_that_is_as_wanted_is_left_as_it_is(
    set_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "bin" / "python", "#!/bin/sh\nexit 1\n")
    (tmp_path / ".parley-set-up").write_text(set_up.fingerprint("4.3.0"))
    monkeypatch.setattr(set_up, "make_environment", lambda _: pytest.fail("it was made again"))
    set_up.set_up(tmp_path, "4.3.0")


@pytest.mark.parametrize(
    ("cargo", "native", "fails"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_with_cargo_the_kernel_must_be_native(
    set_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cargo: bool, native: bool,
    fails: bool, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(
        set_up, "ask", lambda *_: subprocess.CompletedProcess([], 0, f"{native}\n20 times\n")
    )
    monkeypatch.setattr(
        set_up, "capture", lambda _: subprocess.CompletedProcess([], 1, "error: linker not found")
    )
    if cargo:
        executable(tmp_path / "cargo", "#!/bin/sh\n")
    if fails:
        with pytest.raises(
            set_up.SetUpError, match=r"(?s)cargo is present.*linker not found.*Repair the build"
        ):
            set_up.check_kernel(tmp_path)
    else:
        set_up.check_kernel(tmp_path)
        assert ("kernel: native" if native else "kernel: pure Python") in capsys.readouterr().out


@pytest.mark.parametrize(("cargo", "found"), [(True, "None"), (True, "x"), (False, "x")])
def test_with_cargo_the_decoder_of_schemas_must_be_compiled(
    set_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cargo: bool, found: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = subprocess.CompletedProcess[str]([], 0, f"{found}\n")
    monkeypatch.setattr(set_up, "ask", lambda *_: answer)
    if cargo:
        executable(tmp_path / "cargo", "#!/bin/sh\n")
    if cargo and found != "None":
        with pytest.raises(set_up.SetUpError, match="the decoder of schemas is not used: x"):
            set_up.check_schemas(tmp_path)
        return
    set_up.check_schemas(tmp_path)
    said = capsys.readouterr().out
    assert ("schemas: compiled" if cargo else "schemas: pure Python, because x") in said


def test_everything_that_is_installed_is_pinned(set_up: ModuleType) -> None:
    import re
    from importlib.metadata import distribution

    pinned = {
        line.partition("==")[0].lower()
        for line in set_up.CONSTRAINTS.read_text().splitlines()
        if "==" in line
    }
    names = {re.split(r"[^A-Za-z0-9_.-]", one)[0].lower() for one in set_up.libraries()}
    assert names <= pinned, names - pinned
    # And what those need in turn, as far as this environment shows.
    for name in sorted(names):
        for needed in distribution(name).requires or []:
            if ";" not in needed:
                needed_name = re.split(r"[^A-Za-z0-9_.-]", needed)[0].lower().replace("_", "-")
                assert needed_name in {one.replace("_", "-") for one in pinned}, (
                    f"{name} needs {needed_name}"
                )


def test_both_distributions_are_installed_from_the_tree(
    set_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(set_up, "run", lambda command, what: commands.append(command))
    monkeypatch.setattr(set_up, "ROOT", tmp_path)
    set_up.install_parley(tmp_path)
    (command,) = commands
    editable = [path for option, path in pairwise(command) if option == "--editable"]
    assert editable[:2] == [".", "./cluster"]
    assert (editable[2:] == ["./schemas"]) is (shutil.which("cargo") is not None)
    assert "--no-deps" in command


def test_no_index_is_asked_for_what_this_tree_is(set_up: ModuleType) -> None:
    assert not [one for one in set_up.libraries() if "parley" in one]


def test_an_environment_depends_on_what_its_cluster_is_built_by(
    set_up: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set_up.fingerprint("4.3.0")
    monkeypatch.setattr(set_up, "CLUSTER", tmp_path)
    for name in ("setup.py", "pyproject.toml"):
        (tmp_path / name).write_text("")
    assert set_up.fingerprint("4.3.0") != before


def test_the_environment_of_this_run_has_a_path(set_up: ModuleType) -> None:
    assert set_up.installed_version(Path(sys.prefix), "pytest") == pytest.__version__
