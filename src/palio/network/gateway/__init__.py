"""HTTP gateway of a broker: REST, CloudEvents, webhooks, event streams, metrics."""
