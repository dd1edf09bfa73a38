"""Builds a component: python -m wfhost build app.py -o app.wasm"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import stubs

#: The release of componentize-py that the package is tested with.
VERSION = "0.25.1"
_WORLD = "package wfhost:process@0.1.0;\nworld described { include process; export describe; }\n"


def _tool() -> str:
    """The program componentize-py: of this Python's environment, or of the PATH."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("componentize-py", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if found is None:
        sys.exit(f"componentize-py is not installed: {sys.executable} -m pip install componentize-py=={VERSION}")
    return found


def build(source: Path, output: Path) -> None:
    """Makes the component of a module; modules beside it can be imported."""
    if not source.stem.isidentifier():
        sys.exit(f"{source}: the name of a module is an identifier")
    if not source.is_file():
        sys.exit(f"{source}: there is no such file")
    package = Path(__file__).resolve().parent
    tool = _tool()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "wit").mkdir()
        (work / "app").mkdir()
        shutil.copyfile(package / "process.wit", work / "wit" / "process.wit")
        (work / "wit" / "described.wit").write_text(_WORLD)
        # The component's module comes first: it replaces the library's clocks before others take them.
        app = f"from wfhost.component import Describe, Guest\nimport {source.stem}\n"
        (work / "app" / "wfhost_app.py").write_text(app)
        made = work / "component.wasm"
        command = [tool, "-q", "-d", "wit", "-w", "described", "componentize", "-p", "app"]
        command += ["-p", str(source.resolve().parent), "-p", str(package.parent), "wfhost_app"]
        command += ["--stub-wasi", "-o", str(made)]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
        if subprocess.run(command, cwd=work, env=environment).returncode != 0:
            sys.exit("componentize-py failed: it says above what is wrong")
        output.write_bytes(stubs.answering(made.read_bytes()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m wfhost", description="Makes components of programs in Python.")
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser("build", help="make a component", epilog="example: python -m wfhost build app.py")
    command.add_argument("source", type=Path, help="the module with the entries")
    command.add_argument("-o", "--output", type=Path, help="the component (default: app.wasm beside app.py)")
    given = parser.parse_args()
    build(given.source, given.output or given.source.with_suffix(".wasm"))


if __name__ == "__main__":
    main()
