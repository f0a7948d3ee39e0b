"""Whose want is already served, because somebody else wants at least as much?"""
