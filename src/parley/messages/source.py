"""What the generators of compiled encoders and decoders share: lines of Python with indentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Source:
    """Collects the lines and the global names of one generated function."""

    def __init__(self, signature: str, names: Mapping[str, object]) -> None:
        self._lines = [f"def {signature}:"]
        self._depth = 1
        self._counter = 0
        self.names: dict[str, object] = dict(names)
        self._constants: dict[tuple[str, object], str] = {}

    def line(self, text: str) -> None:
        """Append one line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append a line that opens a block, and indent what follows inside the `with`."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return a variable name not used before in this function."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, prefix: str, key: object, value: object) -> str:
        """Return the global name of a value; the same `key` gives the same name."""
        name = self._constants.get((prefix, key))
        if name is None:
            name = self._constants[prefix, key] = f"{prefix}_{len(self._constants)}"
            self.names[name] = value
        return name

    def text(self) -> str:
        """Return the function's source."""
        return "\n".join(self._lines) + "\n"

    def function(self, name: str, title: str) -> Any:
        """Compile the source and return the function; `title` names it in tracebacks."""
        exec(compile(self.text(), f"<{title}>", "exec"), self.names)
        return self.names[name]
