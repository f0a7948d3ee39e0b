"""How an event moves on: by its content at the first broker, by a header at those that follow."""
