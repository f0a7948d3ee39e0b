"""How brokers hold on to each other: connections that are made again when they break."""
