"""Runs each command of pages and looks for what they say that it prints. usage: tutorial.py SOURCE PROGRAM PAGE...

A command is a line "    $ COMMAND"; the indented lines right after it are lines of its standard output.
"""

import os
import subprocess
import sys
import tempfile

source, program = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
steps = []
for page in sys.argv[3:]:
    expected = None
    with open(os.path.join(source, page), encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("    $ "):
                expected = []
                steps.append((line[6:], expected))
            elif not line.startswith("    "):
                expected = None
            elif expected is not None:
                expected.append(line[4:])
if len(steps) < 10:
    sys.exit(f"expected 10 commands or more, found {len(steps)}")
failed = 0
with tempfile.TemporaryDirectory() as folder:
    for name in ("models", "examples"):
        os.symlink(os.path.join(source, name), os.path.join(folder, name))
    environment = {**os.environ, "PATH": os.path.dirname(program) + os.pathsep + os.environ["PATH"]}
    for command, expected in steps:
        done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
        missing = [line for line in expected if line not in done.stdout.splitlines()]
        if done.returncode != 0 or missing:
            failed = 1
            print(f"$ {command}\nexit code {done.returncode}, expected 0; missing: {missing}\n{done.stdout}{done.stderr}")
print(f"{len(steps)} commands")
sys.exit(failed)
