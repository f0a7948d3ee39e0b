"""Peers on real sockets: ring driver, connections and server of `palio peer`."""
