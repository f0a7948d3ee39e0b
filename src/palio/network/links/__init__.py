"""Links between brokers over TCP, TLS and datagrams."""
