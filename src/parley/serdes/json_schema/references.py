"""What a `$ref` of a JSON Schema refers to: a part of the same schema, or another one by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import unquote

from parley.errors import SchemaError, printable
from parley.types import Json

_INDEX = re.compile(r"[0-9]{1,9}")


class References:
    """`roots` are the schemas that can be referred to, by name."""

    def __init__(self, roots: Mapping[str, Json]) -> None:
        self._roots = roots
        self._anchors: dict[int, dict[str, Json]] = {}
        """Of each schema that was asked for one."""

    def resolved(self, reference: str, root: Json, path: str) -> tuple[Json, Json]:
        """Return what a `$ref` refers to, and in which schema that is.

        Raises SchemaError where there is none.
        """
        name, _, fragment = reference.partition("#")
        if name:
            root = self._root(name, root, path)
        # what is encoded by the standard; some write names as they are
        for spelt in (unquote(fragment), fragment):
            found = self._part(spelt, root)
            if found is not None:
                return found, root
        raise SchemaError(f'"$ref" names {named(reference)}, which is not there', path=path)

    def _root(self, name: str, root: Json, path: str) -> Json:
        short = name.rpartition("/")[2]
        found = next((self._roots[one] for one in (name, short) if one in self._roots), None)
        if found is not None:
            return found
        if isinstance(root, dict) and root.get("$id") == name:
            return root
        raise SchemaError(
            f'"$ref" names {named(name)}, which is not among the references', path=path
        )

    def _part(self, fragment: str, root: Json) -> Json:
        """Return what a pointer or an anchor names, None where it is not there."""
        if fragment and not fragment.startswith("/"):
            return self._anchors_of(root).get(fragment)
        node = root
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = node.get(key)
            elif isinstance(node, list) and _INDEX.fullmatch(key):
                node = node[int(key)] if int(key) < len(node) else None
            else:
                return None
        return node

    def _anchors_of(self, root: Json) -> dict[str, Json]:
        found = self._anchors.get(id(root))
        if found is None:
            found = self._anchors[id(root)] = _anchors(root)
        return found


def _anchors(root: Json) -> dict[str, Json]:
    """Return the parts of a schema that have a name of their own; up to draft 7 it is an id."""
    found: dict[str, Json] = {}
    parts = [root]
    for node in parts:
        if isinstance(node, dict):
            for key in ("$anchor", "$dynamicAnchor", "$id", "id"):
                name = node.get(key)
                if isinstance(name, str) and (name.startswith("#") == key.endswith("id")):
                    found.setdefault(name.removeprefix("#"), node)
            parts.extend(node.values())
        elif isinstance(node, list):
            parts.extend(node)
    return found


def named(value: Json) -> str:
    """Return a part of a schema as an error names it."""
    return printable(json.dumps(value), 60)
