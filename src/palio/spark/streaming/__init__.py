"""Matching without end: batches of a stream, each with a version of the subscriptions that is written down first."""
