# A step of a workflow: the functions with @entry are its entries.
from dataclasses import dataclass

from wfhost import Problem, entry, sleep


@dataclass
class Person:
    name: str


@entry
async def run(person: Person):
    """Greets somebody after a moment."""
    if not person.name:
        raise Problem("no-name", "There is nobody to greet")
    await sleep(0.01)
    return {"greeting": f"Hello, {person.name}!"}
