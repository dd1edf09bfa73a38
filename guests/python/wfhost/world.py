"""Time and chance of Python's library, from the host: `time`, `datetime`, `random`, `os.urandom`.

Before an entry begins, while modules are loaded, it is 1970, and `os.urandom` gives zeros. What a
module has taken with `from time import time` is replaced only if this module is loaded before it.
"""

# ruff: noqa: F401
# These the library imports when they are first needed: then there are no files.
import _strptime
import datetime
import encodings.ascii, encodings.base64_codec, encodings.cp1252, encodings.hex_codec, encodings.idna
import encodings.latin_1, encodings.punycode, encodings.raw_unicode_escape, encodings.rot_13, encodings.unicode_escape
import encodings.utf_8_sig, encodings.utf_16, encodings.utf_16_be, encodings.utf_16_le, encodings.utf_32
import os
import random
import time

from wit_world.imports import host

_has_begun = False


def begin():
    """An entry begins: `random` starts with the process's own stream."""
    global _has_begun
    _has_begun = True
    random.seed(int.from_bytes(_random(16), "big"))


def _micros():
    return host.now() if _has_begun else 0


def _random(count):
    if not _has_begun:
        return bytes(count)
    return b"".join(bytes(host.random(min(4096, count - at))) for at in range(0, count, 4096))


class _Any(type):
    """What C code makes is an instance as well."""

    def __instancecheck__(cls, value):
        return isinstance(value, cls.__mro__[1])


class _Datetime(datetime.datetime, metaclass=_Any):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(_micros() / 1_000_000, tz)

    @classmethod
    def utcnow(cls):
        return cls.now(datetime.timezone.utc).replace(tzinfo=None)

    @classmethod
    def today(cls):
        return cls.now()


class _Date(datetime.date, metaclass=_Any):
    @classmethod
    def today(cls):
        return cls.fromtimestamp(_micros() / 1_000_000)


for _of, _name in [(_Datetime, "datetime"), (_Date, "date")]:
    _of.__name__ = _of.__qualname__ = _name
    _of.__module__ = "datetime"


def _sleep(seconds):
    raise RuntimeError("time.sleep would block: write `await sleep(seconds)`, from wfhost")


def _of_seconds(function):
    return lambda seconds=None: function(time.time() if seconds is None else seconds)


def _strftime(function):
    return lambda format, at=None: function(format, time.localtime() if at is None else at)


time.time = time.monotonic = time.perf_counter = time.process_time = lambda: _micros() / 1_000_000
time.time_ns = time.monotonic_ns = time.perf_counter_ns = time.process_time_ns = lambda: _micros() * 1_000
time.gmtime, time.localtime = _of_seconds(time.gmtime), _of_seconds(time.localtime)
time.ctime, time.strftime = _of_seconds(time.ctime), _strftime(time.strftime)
time.sleep = _sleep
datetime.datetime, datetime.date = _Datetime, _Date
os.urandom = random._urandom = _random
