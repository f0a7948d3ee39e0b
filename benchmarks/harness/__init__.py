"""How are engines measured on the same work, in the same run, on one core, with their answers compared?"""
