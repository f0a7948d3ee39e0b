"""A subscription log beside a list of dictionaries: any order of changes, commits, compactions and readings."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from palio import DuplicateSubscription, UnknownSubscription
from palio.errors import VersionNotKept
from palio.spark import SubscriptionLog
from tests.spark.subscription_log.crashing_disk import Crash, crashing

IDS = st.sampled_from(["a", "b", "c", "d"])
WRITERS = st.integers(0, 1)


class LogMachine(RuleBasedStateMachine):
    """Two writers and any number of readers, one of which may die at any step."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="palio-log-")
        self.writers = [SubscriptionLog(self.folder), SubscriptionLog(self.folder)]
        self.staged: list[list[tuple[str, str, str]]] = [[], []]
        self.versions: list[dict[str, str]] = [{}]
        self.kept = 0  # from this version on, all can be read
        self.counter = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @rule(writer=WRITERS, id=IDS, kind=st.sampled_from(["add", "replace", "remove"]))
    def stage(self, writer: int, id: str, kind: str) -> None:
        self.counter += 1
        where = f"x = {self.counter}"
        if kind == "remove":
            self.writers[writer].remove(id)
        else:
            getattr(self.writers[writer], kind)(id, where)
        self.staged[writer].append((kind, id, where))

    @rule(writer=WRITERS)
    def discard(self, writer: int) -> None:
        self.writers[writer].discard()
        self.staged[writer].clear()

    @rule(writer=WRITERS)
    def commit(self, writer: int) -> None:
        after = self.outcome(writer)
        if isinstance(after, dict):
            made = bool(self.staged[writer]) or len(self.versions) == 1
            if made:
                self.versions.append(after)
            assert self.writers[writer].commit() == len(self.versions) - 1
        else:
            with pytest.raises(after):
                self.writers[writer].commit()
            self.writers[writer].discard()
        self.staged[writer].clear()

    @rule(writer=WRITERS, step=st.integers(0, 12), done=st.booleans())
    def commit_and_die(self, writer: int, step: int, done: bool) -> None:
        after = self.outcome(writer)
        try:
            with crashing(step, after=done):
                self.writers[writer].commit()
        except (DuplicateSubscription, UnknownSubscription) as error:
            assert after is type(error)
        except Crash:
            pass
        self.writers[writer] = SubscriptionLog(self.folder)
        self.staged[writer].clear()
        if self.writers[writer].version == len(self.versions):
            assert isinstance(after, dict)
            self.versions.append(after)

    @rule(writer=WRITERS)
    def compact(self, writer: int) -> None:
        self.writers[writer].compact(keep=timedelta(0))
        self.kept = len(self.versions) - 1

    @rule(writer=WRITERS)
    def snapshot(self, writer: int) -> None:
        self.writers[writer].compact()

    @rule(writer=WRITERS, step=st.integers(0, 12), done=st.booleans())
    def compact_and_die(self, writer: int, step: int, done: bool) -> None:
        try:
            with crashing(step, after=done):
                self.writers[writer].compact(keep=timedelta(0))
        except Crash:
            pass
        self.writers[writer] = SubscriptionLog(self.folder)
        self.staged[writer].clear()
        # It may have removed as much as it was about to, and must not have removed more.
        self.kept = max(self.kept, min(len(self.versions) - 1, SubscriptionLog(self.folder).oldest))

    @rule(fresh=st.booleans(), back=st.integers(0, 5))
    def read(self, fresh: bool, back: int) -> None:
        version = max(0, len(self.versions) - 1 - back)
        log = SubscriptionLog(self.folder) if fresh else self.writers[0]
        if version >= self.kept:
            assert {each.id: each.where for each in log.at(version)} == self.versions[version]
        elif version:
            with pytest.raises(VersionNotKept):
                log.at(version)

    @precondition(lambda self: len(self.versions) > 1)
    @invariant()
    def the_latest_is_what_it_should_be(self) -> None:
        log = SubscriptionLog(self.folder)
        assert log.version == len(self.versions) - 1
        assert {each.id: each.where for each in log.at()} == self.versions[-1]
        assert log.oldest == self.kept

    def outcome(self, writer: int) -> dict[str, str] | type[Exception]:
        """What a commit makes of the latest version, or how it is refused."""
        now: dict[str, Any] = dict(self.versions[-1])
        for kind, id, where in self.staged[writer]:
            if (id in now) == (kind == "add"):
                return DuplicateSubscription if kind == "add" else UnknownSubscription
            if kind == "remove":
                del now[id]
            else:
                now[id] = where
        return now


LogMachine.TestCase.settings = settings(
    max_examples=max(20, settings.default.max_examples // 3) if settings.default else 30, stateful_step_count=30
)
test_the_log_does_what_a_list_of_dictionaries_does = LogMachine.TestCase
