# A step of the workflow: the functions with @entry are its entries, and `run` is the one that runs.
from wfhost import entry, gather, sleep


async def line(item):
    await sleep(0.01)  # a wait that survives a crash of the host
    return {"name": item["name"], "sum": item["price"] * item["count"]}


@entry
async def run(order: dict):
    """Adds up an order."""
    if not order["items"]:
        raise ValueError("the order is empty")
    lines = await gather(*[line(item) for item in order["items"]])
    total = sum(line["sum"] for line in lines)
    print("the total is", total)
    return {"lines": lines, "total": total}
