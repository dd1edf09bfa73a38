"""Inputs against the annotations of entries, and the JSON Schema that these give."""

from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from .problem import Problem

_SCALARS = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null", list: "array", dict: "object"}


def _parameter(function):
    """The annotation of an entry's first parameter; `Any` without one, None without a parameter."""
    code = function.__code__
    if code.co_argcount == 0:
        return None
    return get_type_hints(function).get(code.co_varnames[0], Any)


def arguments(function, input):
    """What an entry is called with.

    Raises the problem `bad-input` if it does not fit.
    """
    of = _parameter(function)
    if of is None:
        return ()
    try:
        return (_fit(input, of, "the input"),)
    except TypeError as error:
        raise Problem("bad-input", "The input does not fit the entry", detail=str(error)) from None


def _fit(value, of, where):
    origin, parts = get_origin(of), get_args(of)
    if of is Any:
        return value
    if origin in (Union, UnionType):
        for part in parts:
            try:
                return _fit(value, part, where)
            except TypeError:
                continue
    elif is_dataclass(of):
        if isinstance(value, dict):
            return _members(value, of, where)
    elif origin is list:
        if isinstance(value, list):
            return [_fit(item, parts[0], f"{where}[{n}]") for n, item in enumerate(value)]
    elif origin is dict:
        if isinstance(value, dict):
            return {key: _fit(item, parts[1], f"{where}.{key}") for key, item in value.items()}
    elif of is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif not isinstance(of, type) or isinstance(value, of) and not (of is int and isinstance(value, bool)):
        return value
    raise TypeError(f"{where} is no {getattr(of, '__name__', of)}")


def _members(value, of, where):
    hints, found = get_type_hints(of), {}
    for field in fields(of):
        if field.name in value:
            found[field.name] = _fit(value[field.name], hints[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise TypeError(f"{where} has no {field.name}")
    return of(**found)


def schema(of):
    """The JSON Schema of an annotation; `{}` if nothing can be said."""
    origin, parts = get_origin(of), get_args(of)
    if of in _SCALARS:
        return {"type": _SCALARS[of]}
    if origin in (Union, UnionType):
        return {"anyOf": [schema(part) for part in parts]}
    if origin is list:
        return {"type": "array", "items": schema(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(parts[1])}
    if is_dataclass(of):
        hints = get_type_hints(of)
        required = [field.name for field in fields(of) if field.default is MISSING and field.default_factory is MISSING]
        return {"type": "object", "required": required, "properties": {name: schema(hints[name]) for name in hints}}
    return {}


def described(function):
    """Documentation and schema of an entry."""
    found = {}
    if function.__doc__:
        found["description"] = function.__doc__.strip()
    of = _parameter(function)
    if of is not None and schema(of):
        found["input"] = schema(of)
    return found
