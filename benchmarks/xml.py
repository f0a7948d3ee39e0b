"""XML benchmark: documents against many XPath patterns, beside lxml: one compiled XPath each, and one stylesheet.

    python benchmarks/xml.py                            1k, 10k and 100k patterns; some minutes
    python benchmarks/xml.py --sizes 1k 10k
    python benchmarks/xml.py --quick                    a small run of everything

`harness/xml_patterns.py` says what is measured.
"""

from __future__ import annotations

import sys
import sysconfig
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def import_package_of_python() -> None:
    """Put Python's package xml in the place of this file, which the scripts of this folder find before it."""
    spec = PathFinder.find_spec("xml", [sysconfig.get_path("stdlib")])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["xml"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "xml":
    import_package_of_python()
elif __name__ == "__main__":
    from harness.xml_patterns import main

    raise SystemExit(main())
