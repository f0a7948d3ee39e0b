"""Objects of other libraries as content: dataclasses and rows of pandas as mappings, data frames as Arrow.

Nothing is imported for that: an object can only be one of pandas or Polars if these are imported already.

pandas has no null of its own in columns of floats and objects, and writes NaN there. In what is pandas' (a Series, a
DataFrame) NaN is therefore a null, as Arrow and Spark read it. A float NaN elsewhere stays the float that it is: SQL
has both, and JSON, Arrow, Polars and Spark keep them apart.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from palio.errors import EventError


def members_of(value: Any) -> Mapping[Any, Any] | None:
    """The members of a dataclass or of a pandas Series by name; None for anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, pandas.Series):
        return None
    if not value.index.is_unique:
        raise EventError("two values of a Series have one name")
    # `items` gives Python's and NumPy's scalars; a list in a Series is no null, whatever it holds.
    return {
        name: None if is_null else item
        for (name, item), is_null in zip(value.items(), value.isna().tolist(), strict=True)
    }


def as_arrow(data: Any) -> Any:
    """A DataFrame of pandas as an Arrow table, a LazyFrame of Polars collected; anything else as it is.

    A stream of Arrow data that has no columns, such as one Series, is refused.
    """
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if polars is not None and isinstance(data, polars.LazyFrame):
        return data.collect()
    import pyarrow as pa

    if pandas is None or not isinstance(data, pandas.DataFrame):
        known = pa.Table | pa.RecordBatch | pa.RecordBatchReader
        if isinstance(data, known) or not hasattr(data, "__arrow_c_stream__"):
            return data
        try:
            return pa.RecordBatchReader.from_stream(data)
        except pa.ArrowInvalid:
            reason = "one column is no batch of events; make a frame of it, as series.to_frame() does"
            raise EventError(reason) from None
    try:
        # The index numbers the rows, or names them; it is no attribute, whether it has a name or not.
        return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise EventError(f"a DataFrame that Arrow cannot read: {error}") from None
