"""What happened: events, and how they are read.

`Event` is the set of (attribute, value) pairs that everything else in Palio works on; `Limits` bounds what is
accepted from outside; `join_path`, `split_path` and `quote_segment` spell attribute names.
"""

from palio.events.event import Event
from palio.events.limits import DEFAULT_LIMITS, Limits
from palio.events.names import join_path, quote_segment, split_path
from palio.events.values import Scalar, Value

__all__ = ["DEFAULT_LIMITS", "Event", "Limits", "Scalar", "Value", "join_path", "quote_segment", "split_path"]
