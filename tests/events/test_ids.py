"""Are ids that nobody gave random UUIDs, whatever the program does with its own chance?"""

from __future__ import annotations

import os
import random
from uuid import RFC_4122, UUID

from palio.events.ids import random_id


def test_it_is_a_uuid_of_version_4() -> None:
    for _ in range(200):
        made = UUID(text := random_id())
        assert (made.version, made.variant, str(made)) == (4, RFC_4122, text)


def test_a_program_that_seeds_its_own_chance_gets_others_each_time() -> None:
    random.seed(1)
    first = random_id()
    random.seed(1)
    assert random_id() != first


def test_a_forked_process_makes_others() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, random_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() != random_id()
