"""How each form of expression is compiled that is no plain function of its arguments."""
