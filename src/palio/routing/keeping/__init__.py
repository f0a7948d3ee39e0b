"""How is no event lost that its publisher was assured of? At-least-once delivery, as docs/delivery.md describes it."""
