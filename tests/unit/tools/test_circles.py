"""No module of parley imports, in whatever way, one that imports it: not for type
checkers, and not in functions.
"""

from __future__ import annotations

import graphlib

import grimp


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("parley", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 400, "the graph has not been found"
    # these import a _native, which is compiled: no file to see
    for package in ("parley.kernel", "parley.serdes"):
        imports[f"{package}.native"].discard(package)
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle
