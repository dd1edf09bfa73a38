import unittest

import main  # noqa: F401 its entries
from wfhost.testing import Guest


class Greeting(unittest.TestCase):
    def test_it_greets_after_a_moment(self):
        guest = Guest("run", {"name": "Ann"})
        self.assertEqual(guest.answer("sleep").output, {"greeting": "Hello, Ann!"})

    def test_a_name_is_needed(self):
        self.assertEqual(Guest("run", {"name": ""}).problem.kind, "no-name")
