"""Forwarding strategies: events travel by their content, or by a header that their first broker wrote."""
