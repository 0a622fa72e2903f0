"""The protocol of each release as a page: the useful half of KIP-35's option 3.

A page lists every API that a release advertises, with its range, the versions that are deprecated
or must not be used, and what changed since the measured release before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from parley.schema import ApiKey, VersionRange, load
from parley.versions.features import Feature
from parley.versions.negotiate import BrokerVersions, api_name
from parley.versions.ranges import MUST_NOT_USE
from parley.versions.releases import Release, releases


class ApiEntry(NamedTuple):
    """One API of a release. `change` is empty where nothing changed since the release before."""

    api_key: int
    api: str
    versions: VersionRange
    deprecated: VersionRange | None
    must_not_use: VersionRange | None
    reason: str
    change: str


class Difference(NamedTuple):
    """One API in which two releases differ; None where a release does not have it."""

    api_key: int
    api: str
    before: VersionRange | None
    after: VersionRange | None
    change: str


def entries(release: Release) -> list[ApiEntry]:
    """Return every API that a release advertises, by key."""
    before = previous(release)
    changed = (
        {d.api_key: d.change for d in differences(before, release)} if before is not None else {}
    )
    return [
        _entry(key, versions, changed.get(key, ""))
        for key, versions in sorted(release.ranges.items())
    ]


def previous(release: Release) -> Release | None:
    """Return the measured release before this one, None for the oldest."""
    older = [found for found in releases().values() if found.number < release.number]
    return older[-1] if older else None


def differences(before: Release, after: Release) -> list[Difference]:
    """Return the APIs whose ranges differ between two releases, by key."""
    found = []
    for key in sorted({*before.ranges, *after.ranges}):
        old, new = before.ranges.get(key), after.ranges.get(key)
        if old != new:
            found.append(Difference(key, api_name(key), old, new, _change(old, new)))
    return found


def feature_differences(before: Release, after: Release) -> tuple[list[Feature], list[Feature]]:
    """Return the named features that appeared, and those that went, from one release to another."""
    old, new = BrokerVersions.from_release(before.name), BrokerVersions.from_release(after.name)
    gained = [feature for feature in Feature if new.supports(feature) and not old.supports(feature)]
    lost = [feature for feature in Feature if old.supports(feature) and not new.supports(feature)]
    return gained, lost


def markdown(release: Release) -> str:
    """Return the page of a release."""
    return "\n".join(_page(release)) + "\n"


def index() -> str:
    """Return the page that links to those of all releases."""
    lines = [
        "# The protocol, release by release",
        "",
        "| release | APIs | record format | changed APIs |",
        "|---|--:|--:|--:|",
    ]
    for found in releases().values():
        before = previous(found)
        changes = len(differences(before, found)) if before is not None else "-"
        lines.append(
            f"| [{found.name}]({found.name}.md) | {len(found.ranges)} | {found.record_magic} "
            f"| {changes} |"
        )
    return "\n".join(lines) + "\n"


def pages() -> Mapping[str, str]:
    """Return the text of every page by file name."""
    return {
        "index.md": index(),
        **{f"{name}.md": markdown(found) for name, found in releases().items()},
    }


def _page(release: Release) -> Iterator[str]:
    before = previous(release)
    yield f"# Kafka {release.name}"
    yield ""
    if not release.answers_api_versions:
        yield "It answers no ApiVersions: the ranges are those of its fixed table."
        yield ""
    yield f"Newest record format: {release.record_magic}."
    if release.finalized_features:
        levels = ", ".join(f"{name} {level}" for name, level in release.finalized_features.items())
        yield f"Finalized features of a fresh broker: {levels}."
    yield ""
    since = f"since {before.name}" if before is not None else ""
    yield f"| key | API | versions | deprecated | must not be used | {since} |"
    yield "|--:|---|---|---|---|---|"
    for entry in entries(release):
        deprecated, forbidden = entry.deprecated or "", entry.must_not_use or ""
        yield (
            f"| {entry.api_key} | {entry.api} | {entry.versions} | {deprecated} | {forbidden} | "
            f"{entry.change} |"
        )
    if before is None:
        return
    gone = [d.api for d in differences(before, release) if d.after is None]
    if gone:
        yield ""
        yield f"Gone since {before.name}: {', '.join(gone)}."
    gained, lost = feature_differences(before, release)
    for title, some in (("New features", gained), ("Features lost", lost)):
        if some:
            yield ""
            yield f"{title}: {', '.join(feature.value for feature in some)}."
    reasons = sorted(
        {f"{entry.api}: {entry.reason}." for entry in entries(release) if entry.must_not_use}
    )
    for reason in reasons:
        yield ""
        yield reason


def _entry(key: int, versions: VersionRange, change: str) -> ApiEntry:
    deprecated = None
    if key in ApiKey.__members__.values():
        marked = load(ApiKey(key)).request.deprecated_versions
        deprecated = marked.intersect(versions) if marked is not None else None
    for rule in MUST_NOT_USE:
        forbidden = rule.versions.intersect(versions)
        if rule.api == key and versions.max >= rule.if_broker_max and forbidden is not None:
            return ApiEntry(
                key, api_name(key), versions, deprecated, forbidden, rule.reason, change
            )
    return ApiEntry(key, api_name(key), versions, deprecated, None, "", change)


def _change(old: VersionRange | None, new: VersionRange | None) -> str:
    if old is None:
        return "new"
    if new is None:
        return "gone"
    words = []
    if new.max != old.max:
        words.append(f"{'up to' if new.max > old.max else 'down to'} {new.max}")
    if new.min != old.min:
        words.append(f"{'from' if new.min > old.min else 'again from'} {new.min}")
    return ", ".join(words)
