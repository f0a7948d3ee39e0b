"""Brokers and clients on a real network: protocol, server, client, links, store, security and HTTP gateway."""
