"""How wants are written: each language reads its own conditions into the same `Filter`."""
