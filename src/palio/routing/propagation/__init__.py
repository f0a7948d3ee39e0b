"""How subscriptions spread: flooding, simple, identity, covering and merging, each also with advertisements."""
