"""Palio beside other brokers: the same events, the same conditions, Python clients for all."""
