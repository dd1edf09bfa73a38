# An order: the prices of all items at once, their total, an approval.
from wfhost import call, entry, gather, log, signal, sleep, spawn


@entry
async def run(order):
    prices = await gather(*[call("price", {"id": id}) for id in order["ids"]])
    await sleep(0.01)
    sum = await spawn("total", prices)
    log(f"total is {sum}")
    return {"total": sum, "by": (await signal("approve"))["by"]}


@entry
def total(prices: list[int]):
    return sum(prices)
