"""How is a broker spoken to over HTTP? CloudEvents in, three ways of streaming out (`docs/http.md`)."""
