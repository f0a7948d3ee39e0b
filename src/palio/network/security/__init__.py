"""Security of a broker: authentication, authorization, quotas and TLS."""
