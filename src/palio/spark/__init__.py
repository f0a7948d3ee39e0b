"""How does Palio run on a Spark cluster, and on Spark's own terms?"""
