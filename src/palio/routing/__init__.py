"""Where an event goes next: a broker is propagation × forwarding × upkeep, over a link session, without I/O."""
