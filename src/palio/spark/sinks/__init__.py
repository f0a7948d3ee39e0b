"""Sinks: destinations of matches that take each batch of a stream once, one module each."""
