"""What a disk may hold after a power loss, from the records of the shim (Documentation/Proof/PowerLoss.md)."""

import os
import shutil
import stat
import struct
from pathlib import Path

SECTOR = 512
HEAD = struct.Struct("=IIQQQ")
# The same list as in Shim/record.h.
CREATE, FOLDER, LINK, SYMLINK, UNLINK, RENAME, WRITE, SIZE, SYNC, UNSEEN = range(1, 11)


class Unseen(Exception):
    """The records do not explain what is in the folder: the shim has missed something, so nothing is proven."""


class Node:
    """A file, a link or a folder: what has surely reached the disk (`kept`), and how it is now."""

    def __init__(self, mode, owner, content):
        self.mode, self.owner = mode, owner
        # Of a file its bytes, of a folder its nodes by name, of a link its target.
        self.kept, self.now = content, content.copy() if isinstance(content, dict) else content[:]
        # Writes and sizes that are not synced, each with its place in the order of all operations.
        self.pending = []
        self.is_unseen = False

    def is_kind(self, kind):
        return stat.S_IFMT(self.mode) == kind


class Disk:
    """A folder on a disk. It is read when no program runs; then the records are followed."""

    def __init__(self, root):
        self.root, self.numbers, self.order = Path(root), {}, 0
        self.top = self._read(self.root)
        # Changes of names that are not synced: their place in the order, and (folder, name, node or None) of each.
        self.names = []

    def _read(self, path):
        attributes = path.lstat()
        if (node := self.numbers.get(attributes.st_ino)) is None:
            kind = stat.S_IFMT(attributes.st_mode)
            if kind == stat.S_IFDIR:
                content = {each.name: self._read(each) for each in sorted(path.iterdir())}
            else:
                content = os.readlink(path) if kind == stat.S_IFLNK else bytearray(path.read_bytes())
            node = self.numbers[attributes.st_ino] = Node(attributes.st_mode, attributes.st_uid, content)
        return node

    # Following the records.

    def follow(self, records):
        start = 0
        while start < len(records):
            length, kind, number, a, b = HEAD.unpack_from(records, start)
            self._follow(kind, number, a, b, records[start + HEAD.size:start + length])
            start += length

    def _follow(self, kind, number, a, b, data):
        self.order += 1
        if kind in (CREATE, FOLDER, SYMLINK, LINK, UNLINK, RENAME):
            first, second = (name.decode() for name in data.split(b"\0")[:2])
        if kind in (CREATE, FOLDER, SYMLINK):
            content = {} if kind == FOLDER else second if kind == SYMLINK else bytearray()
            mode = stat.S_IFLNK | 0o777 if kind == SYMLINK else b & 0xFFFFFFFF
            # A number that an earlier, removed file had is that of a new one from here on.
            self.numbers[number] = Node(mode, b >> 32, content)
            self._name((a, first, number))
        elif kind == LINK:
            self._name((a, first, number))
        elif kind == UNLINK:
            self._name((a, first, None))
        elif kind == RENAME:
            self._name((a, first, None), (b, second, number))
        elif kind == SYNC:
            self._sync(self.numbers[number])
        elif kind == UNSEEN:
            self.numbers[number].is_unseen = True
        else:
            node = self.numbers[number]
            change = (self.order, kind, a, data)
            _apply(node.now, change)
            node.pending.append(change)

    def _name(self, *changes):
        changes = [(self.numbers[folder], name, None if number is None else self.numbers[number]) for folder, name, number in changes]
        for folder, name, node in changes:
            _set(folder.now, name, node)
        self.names.append((self.order, changes))

    def _sync(self, node):
        if node.is_kind(stat.S_IFDIR):
            waiting = []
            for order, changes in self.names:
                if any(folder is node for folder, _, _ in changes):
                    for folder, name, each in changes:
                        _set(folder.kept, name, each)
                else:
                    waiting.append((order, changes))
            self.names = waiting
        elif not node.is_unseen:
            for change in node.pending:
                _apply(node.kept, change)
            node.pending = []

    # The end.

    def check(self):
        """Compares the folder with the records: the shim has to have seen everything. Takes over what it cannot see."""
        self._check(self.root, self.top)

    def _check(self, path, node):
        if not node.is_kind(stat.S_IFLNK):
            node.mode = path.stat().st_mode
        if node.is_kind(stat.S_IFDIR):
            found = {each.name for each in path.iterdir()}
            if found != node.now.keys():
                raise Unseen(f"{path} has {sorted(found)}, and the records say {sorted(node.now)}")
            for name, each in node.now.items():
                self._check(path / name, each)
        elif node.is_kind(stat.S_IFREG):
            there = path.read_bytes()
            if node.is_unseen:
                node.now = bytearray(there)
            elif there != node.now:
                at = next((i for i, (x, y) in enumerate(zip(there, node.now)) if x != y), min(len(there), len(node.now)))
                raise Unseen(f"{path} differs from the records at byte {at} ({len(there)} bytes, and {len(node.now)})")

    def cut(self, random):
        """Replaces the folder's contents by what may be on the disk after a cut at this moment."""
        choice = Choice(random, self.order)
        folders = {}

        def entries(folder):
            return folders.setdefault(id(folder), dict(folder.kept))

        for order, changes in self.names:
            if choice.has(order):
                for folder, name, node in changes:
                    _set(entries(folder), name, node)
        for each in self.root.iterdir():
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
        written = {}

        def write(path, node):
            if id(node) in written:
                os.link(written[id(node)], path)
                return
            written[id(node)] = path
            if node.is_kind(stat.S_IFDIR):
                if path != self.root:
                    path.mkdir()
                for name, each in entries(node).items():
                    write(path / name, each)
            elif node.is_kind(stat.S_IFLNK):
                path.symlink_to(node.kept)
                return
            else:
                path.write_bytes(choice.content(node))
            os.chown(path, node.owner, -1)
            path.chmod(stat.S_IMODE(node.mode))

        write(self.root, self.top)
        return choice


class Choice:
    """Which of the operations that were not synced have reached the disk."""

    def __init__(self, random, last):
        self.random = random
        # Everything, nothing, all before one moment, or each by itself.
        self.manner = random.choice(["all", "none", "in order", "any", "any", "torn", "torn"])
        self.moment, self.share = random.randint(0, last), random.choice([0.1, 0.5, 0.9])
        self.chosen = {}

    def has(self, order):
        if order not in self.chosen:
            self.chosen[order] = {"all": True, "none": False, "in order": order <= self.moment}.get(self.manner)
            if self.chosen[order] is None:
                self.chosen[order] = self.random.random() < self.share
        return self.chosen[order]

    def content(self, node):
        content = node.kept[:]
        for change in node.pending:
            order, kind, start, data = change
            if kind == SIZE or self.manner != "torn":
                if self.has(order):
                    _apply(content, change)
                continue
            # The size may have grown without what was written there.
            if self.has(order):
                _reach(content, start + len(data))
            for begin, end in _sectors(start, start + len(data)):
                if self.random.random() < self.share:
                    _apply(content, (order, WRITE, begin, data[begin - start:end - start]))
        if node.is_unseen:
            for begin, end in _sectors(0, len(node.now)):
                if self.manner == "all" or self.manner != "none" and self.random.random() < self.share:
                    _apply(content, (0, WRITE, begin, node.now[begin:end]))
        return content


def _sectors(start, end):
    while start < end:
        next_start = min(end, start // SECTOR * SECTOR + SECTOR)
        yield start, next_start
        start = next_start


def _set(folder, name, node):
    if node is None:
        folder.pop(name, None)
    else:
        folder[name] = node


def _reach(content, size):
    if len(content) < size:
        content.extend(bytes(size - len(content)))


def _apply(content, change):
    _, kind, start, data = change
    if kind == WRITE:
        _reach(content, start)
        content[start:start + len(data)] = data
    elif start < len(content):
        del content[start:]
    else:
        _reach(content, start)
