def test_scratch(spark):
    spark.sparkContext.setLogLevel("OFF")
    with open("/tmp/scr/out.txt", "w", buffering=1) as out:
        for line in open("/tmp/scr/exprs.txt"):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            try:
                row = spark.sql(f"SELECT {line} AS v").collect()[0]
                out.write(f"{line}   ->   {row[0]!r}\n")
            except Exception as e:
                out.write(f"{line}   ->   !! {str(e).splitlines()[0][:120]}\n")
