"""The Python client of a broker, for asyncio and for scripts."""
