"""Blobs, read and written part by part."""

import pytest

import wfhost
from wfhost import blobs, entry
from wfhost.testing import Guest, run

DIGEST = f"blake3:{'0' * 64}"


@pytest.fixture(autouse=True)
def own_entries(monkeypatch):
    monkeypatch.setattr(wfhost, "_entries", {})
    monkeypatch.setattr(wfhost, "_process", None)


def handle(size):
    return {"digest": DIGEST, "size": size, "media-type": "text/csv"}


def test_a_blob_is_read_part_by_part_to_its_end():
    @entry
    async def reads(data):
        return [len(part) async for part in blobs.parts(data)]

    content, asked = bytes(600_000), []

    def get(args):
        asked.append(args)
        return content[args["offset"] :][: args["length"]]

    assert run("reads", handle(600_000), handlers={"blob.get": get}) == [524_288, 75_712]
    assert asked[1] == {"blob": DIGEST, "offset": 524_288, "length": 524_288, "as": "bytes"}
    assert run("reads", handle(0)) == []


def test_lines_go_on_where_an_answer_ends():
    @entry
    async def reads(data):
        return [line async for line in blobs.lines(data)]

    answers = {0: {"lines": ["a", "b"], "next": 4}, 4: {"lines": ["c"], "next": None}}
    get = {"blob.get": lambda args: answers[args["offset"]]}
    assert run("reads", handle(5), handlers=get) == ["a", "b", "c"]
    assert run("reads", handle(0)) == []


def test_a_blob_is_written_in_parts_which_are_joined():
    @entry
    async def writes():
        writer = blobs.Writer("text/csv")
        await writer.write(b"1" * 500_000)
        await writer.write("é" * 50_000)
        return await writer.finish()

    guest = Guest("writes")
    [(handler, first)] = guest.calls()
    assert (handler, len(first), first[499_999:500_002]) == ("blob.put", 524_288, b"1\xc3\xa9")
    [(_, rest)] = guest.answer("call", handle(524_288)).calls()
    assert len(rest) == 75_712
    [joined] = guest.answer("call", handle(75_712)).calls()
    assert joined == ("blob.put", {"parts": [DIGEST, DIGEST], "media-type": "text/csv"})
    assert guest.answer("call", handle(600_000)).output == handle(600_000)


def test_an_empty_blob_is_one_part_without_bytes():
    @entry
    async def writes():
        return await blobs.Writer().finish()

    guest = Guest("writes")
    assert guest.calls() == [("blob.put", b"")]
    assert guest.answer("call", handle(0)).calls()[0][1]["parts"] == [DIGEST]
