"""Write THIRD-PARTY-NOTICES.txt: the licences of what is compiled into the native modules.

    python tools/write_notices.py           write the file
    python tools/write_notices.py --check   say whether it is what would be written

What is compiled in is asked of cargo, for every platform that wheels are made for; the texts are
those of the crates' own sources, the C libraries within them included. Build scripts and procedural
macros stay out: nothing of them is in a wheel. Without cargo `--check` compares only the crates of
each Cargo.lock with those that the file was written for.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTICES = ROOT / "THIRD-PARTY-NOTICES.txt"
CRATES = {"native": "parley-native", "native-schemas": "parley-schemas"}
"""Folder -> the crate in it, of what is compiled."""
PLATFORMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "aarch64-apple-darwin",
)
LICENCE = re.compile(r"(?i)^(un)?licen[cs]e|^copying|^notice")
HEAD = """\
Third-party notices

parley is under the Apache License 2.0 (LICENSE). \
Its compiled record kernel, parley/kernel/_native, also contains the
libraries below, and its decoder of schemas, parley/serdes/_native (kafka-parley-schemas), \
some of them. Wheels without
compiled modules (py3-none-any) contain none of them.

The Rust standard library is compiled in too: \
Copyright (c) The Rust Project Contributors, under MIT OR Apache-2.0; of
these texts, both of which are below, MIT applies.

Written by tools/write_notices.py for these crates of native and native-schemas: {digest}
"""


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if shutil.which("cargo") is None:
        if check and f": {lock_digest()}\n" in NOTICES.read_text(encoding="utf-8"):
            return 0
        print(
            "write_notices: a Cargo.lock has changed; where cargo is, run this without --check",
            file=sys.stderr,
        )
        return 1
    text = notices()
    if not check:
        NOTICES.write_text(text, encoding="utf-8")
        return 0
    if NOTICES.read_text(encoding="utf-8") == text:
        return 0
    print(
        f"write_notices: {NOTICES.name} is not what would be written; run tools/write_notices.py",
        file=sys.stderr,
    )
    return 1


def lock_digest() -> str:
    """Return a digest of the crates in each Cargo.lock, without parley's own version."""
    names = [
        f"{one['name']} {one['version']}"
        for folder, own in CRATES.items()
        for one in tomllib.loads((ROOT / folder / "Cargo.lock").read_text(encoding="utf-8"))[
            "package"
        ]
        if one["name"] != own
    ]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def notices() -> str:
    """Return the whole file."""
    parts = [HEAD.format(digest=lock_digest())]
    seen: dict[str, str] = {}
    for crate in compiled_in():
        parts.append(
            f"{'=' * 80}\n{crate['name']} {crate['version']} "
            f"({crate['license']})\n{crate['repository']}\n"
        )
        folder = Path(crate["manifest_path"]).parent
        for path in licence_files(folder, crate["license"]):
            text, where = (
                tidy(path.read_text(encoding="utf-8")),
                f"{crate['name']}: {path.relative_to(folder)}",
            )
            if text in seen:
                parts.append(f"{path.relative_to(folder)}: as in {seen[text]}\n")
            else:
                seen[text] = where
                parts.append(f"{'-' * 80}\n{where}\n\n{text}")
    return "\n".join(parts)


def compiled_in() -> list[dict[str, Any]]:
    """Return cargo's descriptions of the crates that end up in a library, by name."""
    found = {str(one["id"]): one for folder in CRATES for one in linked_into(ROOT / folder)}
    return sorted(found.values(), key=lambda crate: (str(crate["name"]), str(crate["version"])))


def linked_into(crate: Path) -> list[dict[str, Any]]:
    """Return what a crate's library contains beside the crate itself."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    for platform in PLATFORMS:
        command += ["--filter-platform", platform]
    done = subprocess.run(command, cwd=crate, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"write_notices: cargo does not describe the crates:\n{done.stderr}")
    described = json.loads(done.stdout)
    packages = {one["id"]: one for one in described["packages"]}
    nodes = {one["id"]: one for one in described["resolve"]["nodes"]}
    root = described["resolve"]["root"]
    found, waiting = set(), [root]
    while waiting:
        here = waiting.pop()
        if here in found:
            continue
        found.add(here)
        for needed in nodes[here]["deps"]:
            linked = any(kind["kind"] is None for kind in needed["dep_kinds"])
            if linked and not any(
                "proc-macro" in target["kind"] for target in packages[needed["pkg"]]["targets"]
            ):
                waiting.append(needed["pkg"])
    return [packages[one] for one in found - {root}]


def licence_files(folder: Path, licence: str) -> list[Path]:
    """Return the texts that apply: MIT where it may be chosen, never the GPL, of which
    zstd offers a choice too.
    """
    found = sorted(
        path for path in folder.rglob("*") if path.is_file() and LICENCE.match(path.name)
    )
    if "MIT" in re.split(r" OR |/", licence):
        found = [path for path in found if "APACHE" not in path.name.upper()]
    found = [
        path
        for path in found
        if "GNU GENERAL PUBLIC LICENSE" not in path.read_text(encoding="utf-8")
    ]
    if not found:
        raise SystemExit(f"write_notices: there is no licence text in {folder}")
    return found


def tidy(text: str) -> str:
    """Return a text without trailing blanks, form feeds and outer empty lines."""
    lines = [line.rstrip() for line in text.replace("\f", "").splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(main())
