"""How events move: by their content, or by a header that the first broker wrote."""
