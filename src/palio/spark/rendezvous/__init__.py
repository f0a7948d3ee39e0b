"""Rendezvous plan: a partitioned join of events and subscriptions by keys, for indexes too large for an executor.

`palio.peers` has what a ring of peers needs too: `rendezvous_mappings` gives keys to events and subscriptions,
`mapping_choice` chooses a mapping by samples, `event_keys` applies it to columns, `placement` assigns keys to buckets.
Here `shuffle_plan` moves both sides into one partition for each bucket, and `bucket_join` indexes the subscriptions of
a partition and matches its events against them.

An event and a subscription may share several buckets; only the first of them reports the match.
"""
