#!/usr/bin/env python3
"""Types in a terminal what a chat must understand on every system, in half a minute. Prints a line for each step.

    scripts/windows/keys.py target/release/longhand
    scripts/windows/keys.py scripts/windows/wine.sh target/windows/x86_64-pc-windows-gnu/mutants/longhand.exe

The terminal is a pseudo-terminal, which Wine shows its programs as a console. Wine 8 passes control sequences on and counts
their letters as text, so only words are looked for and not where they stand.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

PATIENCE = 60  # seconds for each step
QUIET = 1  # seconds without output after which it waits for keys
CTRL_C, BACKSPACE, UP, ENTER = "\x03", "\x7f", "\x1b[A", "\r"

program = [os.path.realpath(part) if os.path.exists(part) else part for part in sys.argv[1:]]
work = tempfile.TemporaryDirectory()
os.chdir(work.name)
for kind in ["CACHE", "STATE", "CONFIG"]:
    os.environ[f"XDG_{kind}_HOME"] = os.path.join(work.name, kind.lower())
os.environ["TERM"] = "xterm"
failed = []


class Terminal:
    """The program in a terminal of its own."""

    def __init__(self, *arguments):
        self.process, self.keys = pty.fork()
        if self.process == 0:
            os.execvp(program[0], [*program, *arguments])
        fcntl.ioctl(self.keys, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    def press(self, *keys):
        os.write(self.keys, "".join(keys).encode())

    def shows(self, pattern):
        """Waits until it shows something new that has this pattern."""
        shown, until = "", time.monotonic() + PATIENCE
        while not re.search(pattern, shown):
            if time.monotonic() > until or not (piece := self.read()):
                print(f"      {pattern!r} is not in {shown[-1000:]!r}")
                return False
            shown += piece
        return True

    def waits(self):
        """Reads until it shows nothing more for a while."""
        while self.read(QUIET):
            pass

    def read(self, seconds=PATIENCE):
        """What it shows next; nothing at its end, or if nothing comes in so many seconds."""
        if not select.select([self.keys], [], [], seconds)[0]:
            return ""
        try:
            return os.read(self.keys, 65536).decode(errors="replace")
        except OSError:
            return ""

    def exit_code(self):
        """Waits until it ends."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def close(self):
        """Closes the window."""
        os.close(self.keys)
        os.waitpid(self.process, 0)


def step(name, is_right):
    print(f"{'ok   ' if is_right else 'FAIL '} {name}", flush=True)
    if not is_right:
        failed.append(name)


with open("note.txt", "w") as note:
    note.write("Mary's favorite number is 34251.\n")
with open("long.txt", "w") as long:
    long.write("The old boat crossed the quiet river. " * 20_000)

chat = Terminal("chat", "-f", "note.txt")
step("a prompt", chat.shows("> "))
chat.press("What is Mary's favorite numbre", BACKSPACE, BACKSPACE, "er?", ENTER)
step("a line with a mistake that is corrected", chat.shows("34251"))
chat.waits()
chat.press(UP)
step("the last question again", chat.shows(r"What is Mary's favorite number\?"))
chat.press(CTRL_C)
chat.waits()
chat.press(CTRL_C)
step("Ctrl-C says how to quit", chat.shows("to quit, press Ctrl-C again"))
chat.press("/exit", ENTER)
step("an end in order", chat.exit_code() == 0)

chat = Terminal("chat", "--resume")
step("the kept conversation", chat.shows("resumed after"))
chat.waits()
chat.press("What is her number?", ENTER)
chat.waits()
chat.close()
run = subprocess.run([*program, "sessions", "export", "note"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
step("a closed window keeps the conversation", "What is her number?" in run.stdout)

ask = Terminal("ask", "-f", "long.txt", "What crossed the river?")
ask.shows("reading")
ask.press(CTRL_C)
step("Ctrl-C stops a reading", ask.exit_code() == 130)

print(f"{len(failed)} failed")
sys.exit(bool(failed))
