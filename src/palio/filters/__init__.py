"""What someone wants: sets of values, filters over events, and the relations between filters."""
