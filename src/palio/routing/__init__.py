"""Routing: a broker as propagation × forwarding × upkeep over link sessions, without I/O."""
