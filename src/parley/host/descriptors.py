"""How many files and sockets this process may have open: soft limit raised to the hard one."""

from __future__ import annotations


def raise_descriptor_limit(wanted: int) -> str | None:
    """Let this process open at least `wanted` files and sockets.

    Returns None when it may, else what stands in the way and the remedy, for the person who asked
    for so many. A limit that is high enough is left as it is.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit on sockets
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return None
    reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    except (OSError, ValueError) as error:  # macOS refuses what lies above its own maximum
        return _refusal(wanted, soft, str(error))
    return None if reachable == wanted else _refusal(wanted, reachable, f"the hard limit is {hard}")


def _refusal(wanted: int, granted: int, why: str) -> str:
    return (
        f"this process may have {granted:,} files and sockets open and would need about {wanted:,} "
        f"({why}); raise the limit (ulimit -n {wanted}) or start fewer brokers"
    )
