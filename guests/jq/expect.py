"""Writes what native jq makes of each case into cases.tsv, where it is compared by the host's tests:

    python3 guests/jq/expect.py "$(guests/jq/build.sh native)"

A line of cases.tsv is a filter, its input, an outcome, and texts, with tabs between them. The first two are the source; to add a
case, write a line of these and run this. The outcomes: `ok` with the outputs, `error` with the error's message, `compile` with the
messages of the compile errors. Where the component differs on purpose, exceptions.tsv has its own outcome: a filter, the reason, an
outcome and texts. Backslash, newline and tab in a message are written as in C.
"""
import pathlib
import re
import subprocess
import sys

jq = sys.argv[1]
path = pathlib.Path(__file__).with_name("cases.tsv")


def escaped(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def expected(program, value):
    # No environment but a name to ask for, so that nothing of this machine gets into the file.
    run = subprocess.run(
        [jq, "-c", program], input=value, env={"PATH": "/bin", "TZ": "UTC"}, capture_output=True, text=True, timeout=20
    )
    if run.returncode == 0 and program == "now":
        return ["ok", "the time"]  # Or the file would change each time.
    if run.returncode == 0:
        return ["ok", *run.stdout.splitlines()]
    if run.returncode == 3:
        messages = re.findall(r"^jq: error: (.*?)(?: at <top-level>, line \d+, column \d+:)?$", run.stderr, re.M)
        return ["compile", *map(escaped, messages)]
    message = run.stderr.removesuffix("\n").removeprefix("jq: error (at <stdin>:0): ")
    message = re.sub(r"^jq: error \(at <stdin>:0\) \(not a string\): ", "", message)
    return ["error", escaped(message)]


lines = []
for line in path.read_text().splitlines():
    program, value = line.split("\t")[:2]
    lines.append("\t".join([program, value, *expected(program, value)]))
path.write_text("\n".join(lines) + "\n")
print(f"{len(lines)} cases")
