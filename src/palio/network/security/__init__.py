"""Who is there, and what may they do? `docs/security.md` says it for users."""
