"""Docstrings, signatures and tables as Markdown."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, ForwardRef

_CODE = re.compile(r"(`+[^`]+`+)")
_LONGEST = 88
"""Characters of a signature on one line; a longer one has a line for each parameter."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Vertical bars in cells are escaped, but for those in code, which
    Markdown takes as they are.
    """
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    parts = _CODE.split(text.replace("\n", " "))
    return "".join(part if part.startswith("`") else part.replace("|", "\\|") for part in parts)


def prose(text: str) -> str:
    """Return a line of a docstring in which nothing but code is markup."""
    parts = _CODE.split(text)
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    # a word between asterisks is meant to stand out
    return re.sub(r"(?<!\S)\*\w+\*|([*<\[\]])", lambda one: "\\" * bool(one[1]) + one[0], text)


def summary(text: str) -> str:
    """Return the first sentence of a docstring."""
    whole = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", whole, maxsplit=1)[0]


def docstring(text: str | None) -> str:
    """Return a docstring as Markdown: examples become blocks of code, indented
    lines stay as they are.
    """
    if not text:
        return ""
    made = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.lstrip().startswith(">>>"):
            made.append(f"```pycon\n{textwrap.dedent(paragraph)}\n```")
        elif paragraph.startswith("    "):
            made.append(f"```text\n{textwrap.dedent(paragraph)}\n```")
        else:
            made.append(_paragraph(paragraph))
    return "\n\n".join(made) + "\n"


def _paragraph(paragraph: str) -> str:
    """Return a paragraph; a list in it gets the empty line in front that Markdown asks for."""
    lines: list[str] = []
    for line in paragraph.split("\n"):
        item = re.match(r"\s*(-|\d+\.) ", line)
        if item and lines and lines[-1] and not re.match(r"\s*(-|\d+\.) |   ?\S", lines[-1]):
            lines.append("")
        lines.append(prose(line))
    return "\n".join(lines)


def signature(name: str, thing: Any, *, awaited: bool = False) -> str:
    """Return a block of code with a callable's signature, without `self`; of an administrative
    call, which is a function of what begins it, without `begin`.
    """
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [
        one for one in found.parameters.values() if one.name not in ("self", "cls", "begin")
    ]
    texts = _parameter_texts(parameters)
    silent = inspect.isclass(thing) or found.return_annotation is found.empty
    returned = "" if silent else f" -> {_annotation(found.return_annotation)}"
    start = f"{'await ' if awaited else ''}{name}("
    whole = f"{start}{', '.join(texts)}){returned}"
    if len(whole) > _LONGEST:
        lines = "".join(f"    {text},\n" for text in texts)
        whole = f"{start}\n{lines}){returned}"
    return f"```{{.python .signature}}\n{whole}\n```\n"


def _parameter_texts(parameters: Sequence[inspect.Parameter]) -> list[str]:
    texts = []
    starred = False
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            starred = True
        if one.kind is one.KEYWORD_ONLY and not starred:
            texts.append("*")
            starred = True
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        text = f"{stars}{one.name}"
        if one.annotation is not one.empty:
            text += f": {_annotation(one.annotation)}"
        if one.default is not one.empty:
            text += (
                f" = {default_text(one.default)}"
                if ":" in text
                else f"={default_text(one.default)}"
            )
        texts.append(text)
    return texts


def _annotation(annotation: Any) -> str:
    if isinstance(annotation, ForwardRef):  # of a NamedTuple
        annotation = annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return text.strip("'\"")


def default_text(value: Any) -> str:
    """Return a default as one writes it."""
    if isinstance(value, tuple) and type(value) is not tuple:
        return str(getattr(value, "name", value)).upper().replace("-", "_")
    if isinstance(value, bytes) and value and not any(value):
        return f"bytes({len(value)})"
    shown = repr(value)
    return "..." if shown.startswith("<") else shown


@cache
def attribute_docs(cls: type) -> dict[str, str]:
    """Return the texts that stand below the fields of a class."""
    return _texts_below(_class_body(cls))


@cache
def owned_parts(cls: type) -> dict[str, tuple[str, str]]:
    """Return the attributes that `__init__` makes and describes: name → class and text."""
    made = next(
        (
            one
            for one in _class_body(cls)
            if isinstance(one, ast.FunctionDef) and one.name == "__init__"
        ),
        None,
    )
    if made is None:
        return {}
    texts = _texts_below(made.body)
    found = {}
    for one in made.body:
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
            name = _target(one)
            if name in texts and not name.startswith("_"):
                found[name] = (ast.unparse(one.value.func), texts[name])
    return found


def _class_body(cls: type) -> list[ast.stmt]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):
        return []
    return tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []


@cache
def constant_docs(module: Any) -> dict[str, str]:
    """Return the texts that stand below the constants of a module."""
    return _texts_below(ast.parse(inspect.getsource(module)).body)


def _texts_below(body: Sequence[ast.stmt]) -> dict[str, str]:
    found = {}
    for one, below in itertools.pairwise(body):
        name = _target(one)
        if name and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            text = below.value.value
            if isinstance(text, str):
                found[name] = inspect.cleandoc(text)
    return found


def _target(one: ast.stmt) -> str:
    """Return what an assignment gives a value to, without `self`; an empty
    text for anything else.
    """
    targets = (
        one.targets
        if isinstance(one, ast.Assign)
        else [one.target]
        if isinstance(one, ast.AnnAssign)
        else []
    )
    return ast.unparse(targets[0]).removeprefix("self.") if targets else ""
