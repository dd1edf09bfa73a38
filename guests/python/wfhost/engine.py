"""The script engine: runs Python that is given as text. `wit/script.wit` is its contract.

A script is one file and the modules that it imports, below the folder of the script. What is
imported is found by reading the sources, not by running them, so that all that is missing is told
at once. Nothing can be imported from the library later: what is of use is imported here.
"""

# ruff: noqa: F401
import abc, argparse, array, ast, base64, binascii, bisect, calendar, cmath, codecs, collections, collections.abc
import colorsys, configparser, contextlib, contextvars, copy, csv, dataclasses, datetime, decimal, difflib, email.message
import email.parser, email.utils, enum, fnmatch, fractions, functools, graphlib, gzip, hashlib, heapq, hmac
import html, html.entities, http, html.parser, importlib.abc, importlib.machinery, importlib.util, inspect, io, ipaddress, itertools
import json, keyword, linecache, locale, logging, math, numbers, operator, os, pathlib, pickle, posixpath, pprint
import queue, quopri, random, re, reprlib, secrets, shlex, statistics, string, struct, sys, textwrap, time, tokenize
import tomllib, traceback, types, typing, unicodedata, urllib.parse, uuid, warnings, weakref, xml.etree.ElementTree
import zipfile, zlib

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import script as of
from wit_world.imports import host

import wfhost

from . import component
from .problem import Problem, of_exception

#: Every source by its path: its text, or None if it cannot be read.
_texts = {}
_lines = {}
_reasons = {}
#: The folder of the script, from which modules are imported: empty, or with a slash at its end.
_root = ""
_printed = []


class _Early:
    """What is printed while the script is loaded, when there is no log yet."""

    def __init__(self, level):
        self.level = level

    def write(self, text):
        _printed.append((self.level, text))

    def flush(self):
        pass


def _bad(title, path, line, column, detail=None):
    at = {"path": path, "line": line, "column": column}
    return Problem("bad-script", title, detail=detail or f"{path}:{line}:{column}", data={"at": at, "stack": []})


def _wrong(error):
    """A problem of loading, at its place in the sources."""
    if isinstance(error, SyntaxError) and error.filename in _texts:
        path, line = error.filename, error.lineno or 1
        return _bad(f"{type(error).__name__}: {error.msg}", path, line, error.offset or 1)
    found = of_exception(error)
    if found.kind != "bad-script":
        found = Problem("bad-script", found.title, status=found.status, detail=found.detail, data=found.data)
    return found


# Modules


def _candidates(name, package):
    """The files that a module may be in."""
    at = package + name.replace(".", "/")
    return f"{at}.py", f"{at}/__init__.py"


def _is_of_library(name):
    top = name.partition(".")[0]
    return top in sys.modules or top in sys.stdlib_module_names


def _imports(path, tree):
    """The files that the imports of a source may be in, each with the line and column of its import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                for end in range(1, len(parts) + 1):
                    yield from _places(".".join(parts[:end]), _root, node)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                folder = path.rpartition("/")[0]
                for _ in range(node.level - 1):
                    folder = folder.rpartition("/")[0]
                package = f"{folder}/" if folder else ""
            else:
                package = _root
            parts = node.module.split(".") if node.module else []
            for end in range(1, len(parts) + 1):
                yield from _places(".".join(parts[:end]), package, node, node.level)
            inside = package + "/".join(parts)
            if node.level and not parts or _texts.get(f"{inside}/__init__.py") is not None:
                base = package if not parts else f"{inside}/"
                for alias in node.names:
                    if alias.name != "*":
                        yield from _places(alias.name, base, node, 1)


def _places(name, package, node, level=0):
    if level or not _is_of_library(name):
        for file in _candidates(name, package):
            yield file, node


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports from the sources. What was imported before does not come here."""

    def find_spec(self, name, path=None, target=None):
        for file in _candidates(name, _root):
            if _texts.get(file) is not None:
                is_package = file.endswith("/__init__.py")
                return importlib.util.spec_from_loader(name, self, origin=file, is_package=is_package)
        # A folder without a file of its own is a package too.
        folder = _root + name.replace(".", "/")
        if any(file.startswith(f"{folder}/") and text is not None for file, text in _texts.items()):
            return importlib.util.spec_from_loader(name, self, origin=folder, is_package=True)
        if _is_of_library(name) and name not in sys.modules:
            other = ": wfhost has sleep, gather, timeout, TaskGroup" if name == "asyncio" else ""
            raise ModuleNotFoundError(f"the module {name} of Python's library is not part of the engine{other}", name=name)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path = module.__spec__.origin
        if _texts.get(path) is None:
            return
        module.__file__ = path
        exec(compile(_texts[path], path, "exec", dont_inherit=True), module.__dict__)


def _trees(sources):
    trees = {}
    for source in sources:
        if source.form != of.Form.ABSENT:
            try:
                trees[source.path] = ast.parse(source.text, source.path)
            except SyntaxError as error:
                error.lineno = (error.lineno or 1) + source.line - 1
                raise
            if source.line > 1:
                ast.increment_lineno(trees[source.path], source.line - 1)
    return trees


def _missing(trees):
    wanted = []
    for path, tree in trees.items():
        for file, _ in _imports(path, tree):
            if file not in _texts and file not in wanted:
                wanted.append(file)
    return wanted


def _check_modules(trees):
    """Every module that is imported is somewhere."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            else:
                continue
            for name in names:
                files = _candidates(name, _root)
                if _is_of_library(name) or any(_texts.get(file) is not None for file in files):
                    continue
                why = next((_reasons[file] for file in files if file in _reasons), None)
                detail = f"{path}:{node.lineno}:{node.col_offset + 1}: {files[0]}: {why}" if why else None
                raise _bad(f"There is no module {name}", path, node.lineno, node.col_offset + 1, detail)


# Loading


def _load(sources):
    global _root
    main = sources[0]
    _root = main.path.rpartition("/")[0] + "/" if "/" in main.path else ""
    for source in sources:
        _texts[source.path] = None if source.form == of.Form.ABSENT else source.text
        if source.form == of.Form.ABSENT:
            _reasons[source.path] = source.text
    sys.stdout, sys.stderr = _Early(host.Level.INFO), _Early(host.Level.WARN)
    trees = _trees(sources)
    missing = _missing(trees)
    if missing:
        return missing
    _check_modules(trees)
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not importlib.machinery.PathFinder] + [_Finder()]
    name = "script" if main.form == of.Form.BODY else main.path.rpartition("/")[2].removesuffix(".py")
    module = types.ModuleType(name)
    module.__file__ = main.path
    sys.modules.setdefault(name, module)
    tree = trees[main.path]
    if main.form == of.Form.BODY:
        tree = _entry_of(tree, main.line)
        module.__dict__.update({name: getattr(wfhost, name) for name in wfhost.__all__})
    exec(compile(tree, main.path, "exec", dont_inherit=True), module.__dict__)
    if not wfhost._entries:
        wfhost._entries.update(_functions(module))
    if not wfhost._entries:
        raise _bad("The script has no entry: it defines no function", main.path, main.line, 1)
    return []


def _entry_of(body, line):
    """The body of one entry, as a module that defines it."""
    template = ast.parse("async def run(input): pass")
    ast.increment_lineno(template, line - 1)
    if body.body:
        template.body[0].body = body.body
    return template


def _functions(module):
    """The functions that a script without `@entry` offers: all its own, but those that begin with `_`."""
    own = {}
    for name, value in vars(module).items():
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__ and not name.startswith("_"):
            own[name] = value
    return own


class Script(exports.Script):
    def load(self, sources):
        try:
            missing = _load(sources)
        except BaseException as error:
            raise Err(of.Refusal_Wrong(component._wire(_wrong(error)))) from None
        if missing:
            raise Err(of.Refusal_Missing(missing))

    def translate(self, source):
        return source.text


class Guest(component.Guest):
    def init(self, entry, input):
        super().init(entry, input)
        for level, text in _printed:
            (sys.stdout if level == host.Level.INFO else sys.stderr).write(text)
        _printed.clear()


Describe = component.Describe


linecache.checkcache = lambda filename=None: None
linecache.updatecache = lambda filename, module_globals=None: []
# A module is found among the sources, or was imported above: there is no file to look for.
sys.path[:] = []
sys.path_importer_cache.clear()
