"""The script for `spark-submit`; it takes the arguments that would follow `scrapy simhash`.

::

    spark-submit --master yarn .../batch/spark/job.py spark pairs hdfs:///documents -o hdfs:///pairs
"""

import sys

from scrapy.cmdline import execute

if __name__ == "__main__":
    execute(["scrapy", "simhash", *sys.argv[1:]])
