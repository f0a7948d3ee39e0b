"""The NITF schema, from which the XML benchmarks make patterns and documents."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Final

from harness.tasks import data_folder
from palio.workloads.xml_schema import Schema, read_xsd

_ARCHIVE: Final = "xml/news_nitf36xsd_newsmlg2_examples.tar.xz"
_SCHEMA: Final = "nitf-3-6.xsd"
TAGS_BY_SIZE: Final = {"3.8 KB": 110, "60 KB": 1_700}
"""Elements of documents of about these sizes."""


def read_schema() -> Schema | None:
    """The schema of NITF, or None where there is no data."""
    folder = data_folder()
    if folder is None or not (folder / _ARCHIVE).exists():
        return None
    with tarfile.open(folder / _ARCHIVE) as archive:
        for member in archive:
            file = archive.extractfile(member) if Path(member.name).name == _SCHEMA else None
            if file is not None:
                return read_xsd(file.read(), "nitf")
    return None
