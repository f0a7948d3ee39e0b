"""Compiled kernels of XML pattern matching.

`palio.xml` stands below this package, which has the compiler of kernels: it defines them as plain functions, and takes
compiled forms from here. Until kernels are ready (`kernel_readiness`), Python interprets them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from palio.matching.columnar.kernel_readiness import XML, readiness
from palio.matching.columnar.native import compiled
from palio.xml.automaton_kernels import run_automaton
from palio.xml.document_scanner import DocumentScanner
from palio.xml.join_kernels import join_branches
from palio.xml.pattern_index import INTERPRETED_KERNELS, PatternKernels
from palio.xml.scan_kernels import LEFT, scan_document

COMPILED_KERNELS: Final = PatternKernels(compiled(run_automaton), compiled(join_branches))
COMPILED_SCAN: Final = compiled(scan_document)


def _when_ready(kernel: Callable[..., Any], interpreted: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return (kernel if readiness[XML].are_ready() else interpreted)(*arguments)

    return call


PATTERN_KERNELS: Final = PatternKernels(*map(_when_ready, COMPILED_KERNELS, INTERPRETED_KERNELS))
"""The compiled kernels where they are ready, and the interpreted ones before."""
SCANNER: Final = DocumentScanner(_when_ready(COMPILED_SCAN, lambda *_: LEFT))
"""A scanner that leaves all documents to Expat, which is faster than Python, until its kernel is ready."""
