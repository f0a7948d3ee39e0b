"""Filters: sets of values, conditions over events, and the relations between filters."""
