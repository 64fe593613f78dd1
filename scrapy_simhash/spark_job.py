"""The script for `spark-submit`: what stands after it is what would stand after `scrapy simhash`.

::

    spark-submit --master yarn spark_job.py spark pairs hdfs:///documents -o hdfs:///pairs
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Python puts the folder of a script first, and here `numbers` would hide Python's own.
    _HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - before all imports
    sys.path[:] = [path for path in sys.path if path != _HERE]

    from scrapy.cmdline import execute

    execute(["scrapy", "simhash", *sys.argv[1:]])
