"""Computes what workflow.yaml must give, with Python's standard library alone, and prints it as JSON.

    python3 expected.py weather.csv > expected.json
"""

import csv
import json
import math
import sys

COLUMNS = ["precipitation", "temp_max", "temp_min", "wind"]


def summary(values):
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return {
        "count": len(values),
        "min": min(values),
        "max": max(values),
        "mean": mean,
        "stddev": math.sqrt(variance),
    }


groups = {}
with open(sys.argv[1], newline="") as file:
    for row in csv.DictReader(file):
        groups.setdefault(row["location"], []).append(row)

json.dump(
    {
        location: {column: summary([float(row[column]) for row in rows if row[column]]) for column in COLUMNS}
        for location, rows in sorted(groups.items())
    },
    sys.stdout,
    indent=2,
)
print()
