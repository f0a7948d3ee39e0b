"""Real time: what a broker needs to run on a machine, with sockets, clocks, disks and people."""
