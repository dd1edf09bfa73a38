"""Inputs against the annotations of entries, and the JSON Schema that these give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from .problem import Problem

_SCALARS: dict[Any, str] = {
    int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null", list: "array", dict: "object",
    tuple: "array",
}
_NAMES: dict[Any, str] = {
    int: "an integer", float: "a number", str: "a string", bool: "a boolean", NoneType: "null", list: "a list",
    dict: "an object", tuple: "a list", bytes: "bytes",
}


class _Misfit(Exception):
    """Says where an input does not fit."""


def _hints(of: Any) -> dict[str, Any]:
    """The annotations of a function or class; none if a name in them is not there."""
    try:
        return get_type_hints(of)
    except Exception:
        return {}


def _parameter(function: Any) -> Any:
    """The annotation of an entry's first parameter; `Any` without one, None without a parameter."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    if code.co_argcount == 0:
        has_rest = code.co_flags & 0x04
        return Any if has_rest else None
    return _hints(function).get(code.co_varnames[0], Any)


def arguments(function: Callable[..., Any], input: Any) -> tuple[Any, ...]:
    """What an entry is called with.

    Raises the problem `bad-input` if it does not fit.
    """
    of = _parameter(function)
    if of is None:
        return ()
    try:
        return (_fit(input, of, "input"),)
    except _Misfit as misfit:
        raise Problem("bad-input", "The input does not fit the entry", detail=str(misfit)) from None


def _named(of: Any) -> str:
    origin, parts = get_origin(of), get_args(of)
    if origin in (Union, UnionType):
        return " or ".join(_named(part) for part in parts)
    if origin is Literal:
        return " or ".join(repr(part) for part in parts)
    if isinstance(of, type) and issubclass(of, Enum):
        return " or ".join(repr(member.value) for member in of)
    return _NAMES.get(origin or of) or str(getattr(of, "__name__", of))


def _is(value: Any, of: Any) -> bool:
    if of is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, of) and not (of is int and isinstance(value, bool))


def _fit(value: Any, of: Any, where: str) -> Any:
    of = getattr(of, "__supertype__", getattr(of, "__value__", of) if type(of).__name__ == "TypeAliasType" else of)
    origin, parts = get_origin(of), get_args(of)
    if of is None:
        of = NoneType
    if of is Any:
        return value
    if origin in (Union, UnionType):
        for part in parts:
            try:
                return _fit(value, part, where)
            except _Misfit:
                continue
    elif origin is Literal:
        if any(type(value) is type(part) and value == part for part in parts):
            return value
    elif origin is list and isinstance(value, list):
        return [_fit(item, parts[0], f"{where}[{n}]") for n, item in enumerate(value)]
    elif origin is tuple and isinstance(value, list):
        if parts[1:] == (...,):
            return tuple(_fit(item, parts[0], f"{where}[{n}]") for n, item in enumerate(value))
        if len(value) != len(parts):
            raise _Misfit(f"{where} has {len(value)} items, not {len(parts)}")
        return tuple(_fit(item, part, f"{where}[{n}]") for n, (item, part) in enumerate(zip(value, parts)))
    elif origin is dict and isinstance(value, dict):
        return {key: _fit(item, parts[1], f"{where}.{key}") for key, item in value.items()}
    elif is_typeddict(of):
        if isinstance(value, dict):
            return {**value, **_members(value, _hints(of), of.__required_keys__, where)}
    elif isinstance(of, type) and is_dataclass(of):
        if isinstance(value, dict):
            found = _members(value, _fields(of), _required(of), where)
            try:
                return of(**found)
            except (TypeError, ValueError) as error:
                raise _Misfit(f"{where}: {error}") from None
    elif isinstance(of, type) and issubclass(of, Enum):
        for member in of:
            if type(member.value) is type(value) and member.value == value:
                return member
    elif origin is None and isinstance(of, type):
        if of is tuple and isinstance(value, list):
            return tuple(value)
        if _is(value, of):
            return float(value) if of is float else value
    elif not isinstance(origin, type) or origin not in _NAMES and isinstance(value, origin):
        return value  # an annotation that says nothing of JSON
    raise _Misfit(f"{where} is {_NAMES.get(type(value), type(value).__name__)}, not {_named(of)}")


def _fields(of: Any) -> dict[str, Any]:
    hints = _hints(of)
    return {field.name: hints.get(field.name, Any) for field in fields(of) if field.init}


def _required(of: Any) -> list[str]:
    return [f.name for f in fields(of) if f.init and f.default is MISSING and f.default_factory is MISSING]


def _members(value: dict[str, Any], hints: dict[str, Any], required: Any, where: str) -> dict[str, Any]:
    for name in sorted(required):
        if name not in value:
            raise _Misfit(f"{where} has no member {name}")
    return {name: _fit(value[name], of, f"{where}.{name}") for name, of in hints.items() if name in value}


def schema(of: Any, within: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The JSON Schema of an annotation; `{}` if nothing can be said."""
    of = getattr(of, "__supertype__", getattr(of, "__value__", of) if type(of).__name__ == "TypeAliasType" else of)
    origin, parts = get_origin(of), get_args(of)
    if origin is None and of in _SCALARS:
        return {"type": _SCALARS[of]}
    if origin in (Union, UnionType):
        return {"anyOf": [schema(part, within) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is list or origin is tuple and parts[1:] == (...,):
        return {"type": "array", "items": schema(parts[0], within)}
    if origin is tuple:
        items = [schema(part, within) for part in parts]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(parts[1], within)}
    if isinstance(of, type) and issubclass(of, Enum):
        return {"enum": [member.value for member in of]}
    is_typed = is_typeddict(of)
    if is_typed or isinstance(of, type) and is_dataclass(of):
        if of in within:  # it has members of its own type
            return {"type": "object"}
        hints = _hints(of) if is_typed else _fields(of)
        required = sorted(of.__required_keys__) if is_typed else _required(of)
        properties = {name: schema(hint, (*within, of)) for name, hint in hints.items()}
        return {**_description(of), "type": "object", "required": required, "properties": properties}
    return {}


def _description(of: Any) -> dict[str, str]:
    text = of.__doc__
    # A dataclass without documentation is given its signature.
    return {} if not text or text.startswith(f"{of.__name__}(") else {"description": text.strip()}


def described(function: Any) -> dict[str, Any]:
    """Documentation and schema of an entry."""
    found: dict[str, Any] = {}
    if function.__doc__:
        found["description"] = function.__doc__.strip()
    of = _parameter(function)
    if of is not None and schema(of):
        found["input"] = schema(of)
    return found
