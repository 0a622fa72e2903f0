"""The list of words: what it finds, and that nothing of the repository is on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import check_words


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("# The Verdict is kept.", "Verdict"),
        ("self._told = 1", "told"),
        ("it begins anew", "anew"),
        ("waits for ever", "for ever"),
    ],
)
def test_a_word_of_the_list_is_found_in_sentences_and_names(
    tmp_path: Path, line: str, word: str
) -> None:
    (tmp_path / "a.py").write_text(f"import os\n{line}\n", encoding="utf-8")
    (found,) = check_words.complaints([tmp_path / "a.py"])
    assert f"a.py:2: {word}: write " in found


@pytest.mark.parametrize("line", ["retold = intelligence", "a satellite", "foretell()", "amended"])
def test_other_words_that_contain_one_are_not(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.py").write_text(line, encoding="utf-8")
    assert not list(check_words.complaints([tmp_path / "a.py"]))


def test_nothing_of_the_repository_is_on_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_words.main() == 0, capsys.readouterr().err
