"""How do events meet subscriptions that no executor can hold all of? Under keys that both are given, bucket by bucket.

`palio.peers.mappings` says which keys an event and a subscription have; here keys are placed in buckets (`placement`),
each a partition of one shuffle in which subscriptions come first, become an index, and are asked by the events that
follow (`meeting`). Which mapping, and which keys share a bucket, is decided by samples of both (`choosing`).

Nothing is found twice, by construction: an event and a subscription may come together in several buckets, and the first
of them speaks.
"""
