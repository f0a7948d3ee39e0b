"""The columnar index: conditions as intervals of slots, matched by compiled kernels over flat arrays."""
