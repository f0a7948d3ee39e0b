"""Where an event goes next: the broker, how subscriptions spread, how events move, how state stays true."""
