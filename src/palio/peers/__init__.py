"""How do subscriptions and events find each other without brokers? By keys that both are given alike."""
