"""Who wants this event: the matcher, the index it runs on, and the classical indexes to compare it with."""
