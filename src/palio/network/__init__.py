"""Brokers in real time: sockets, clocks, disks and people around the broker that has none of them."""
