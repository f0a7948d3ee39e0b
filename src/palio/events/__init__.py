"""Events: their attributes, values and readers.

`Event` is the set of (attribute, value) pairs that everything else in Palio works on; `Limits` bounds what is
accepted from outside; `join_path`, `split_path` and `quote_segment` spell attribute names.
"""

from palio.events.event import Event
from palio.events.names import join_path, quote_segment, split_path
from palio.events.values import DEFAULT_LIMITS, Limits, Scalar, Value

__all__ = ["DEFAULT_LIMITS", "Event", "Limits", "Scalar", "Value", "join_path", "quote_segment", "split_path"]
