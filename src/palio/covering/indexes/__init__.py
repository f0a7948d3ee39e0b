"""Which filters cover a given one? Several ways to search for them, behind one protocol."""
