"""Runs every command that README.md shows, and fails on one that it does not know. usage: readme.py SOURCE PROGRAM

A command is an indented line, or words in backquotes that begin with the program or a script. Names in capitals are
replaced (NAMES); what takes long is run with less to do (SHORTER); what needs a network, root or another build is run by
what ELSEWHERE names.
"""

import os
import re
import subprocess
import sys
import tempfile

NAMES = {"MODEL": "models/en-es", "TEXT": "'I am here.'", "COMMAND": "translate"}
SHORTER = {
    "vkformer validate": "--quick --device ref",
    "vkformer bench": "--m 8 --n 8 --k 8 --seconds 0.001 --no-roofs",
}
ELSEWHERE = {
    "scripts/demo": "scripts/accept fresh",
    "scripts/test": "it runs this test",
    "scripts/release": "by hand, before a release: root and debootstrap",
    "bench/peers/run": "by hand: the other programs",
    "hf": "by hand: a network",
    "cmake": "whoever builds this, api.installed",
    "pip install": "scripts/release",
}

source, program = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
    text = file.read()
shown = re.findall(r"^    (\S.*)$", text, re.M)
python = re.search(r"^    import vkformer\n(?:    .*\n)+", text, re.M)
shown = [line for line in shown if re.match(r"[\w./-]*(/|cmake|pip)[\w./-]*( |$)", line)]
inline = re.findall(r"`((?:build/)?vkformer [^`]*|(?:scripts|bench)/[^`.]*|(?:cmake|pip|pkg-config|PYTHONPATH|hf)[ =][^`]*)`",
                    text.replace("\n", " "))
commands = []
for command in dict.fromkeys(shown + inline):
    begins = [name for name in ELSEWHERE if command.startswith(name)]
    if begins:
        continue
    if not re.match(r"(build/)?vkformer [a-z]", command) and "COMMAND" not in command:
        sys.exit(f"README.md: expected a command that this test knows, found '{command}'")
    command = command.removeprefix("build/")
    for name, value in NAMES.items():
        command = re.sub(rf"(?<!\w){name}\b", value, command)
    if re.fullmatch(r"vkformer [a-z-]+", command) and command not in ("vkformer doctor", "vkformer devices"):
        command += " --help"
    for name, value in SHORTER.items():
        if command.startswith(name) and not command.endswith("--help"):
            command += " " + value
    commands.append(command)
if len(commands) < 20 or not python:
    sys.exit(f"README.md: expected 20 commands or more and a program in Python, found {commands}")

failed = 0
with tempfile.TemporaryDirectory() as folder:
    for name in ("models", "shaders", "bench"):
        os.symlink(os.path.join(source, name), os.path.join(folder, name))
    with open(os.path.join(folder, "english.txt"), "w", encoding="utf-8") as file:
        file.write("I am here.\n")
    subprocess.run(["gzip", "-k", "english.txt"], cwd=folder, check=True)
    environment = {**os.environ, "PATH": os.path.dirname(program) + os.pathsep + os.environ["PATH"],
                   "PYTHONPATH": os.path.join(source, "python")}
    runs = [(command, ["sh", "-c", command]) for command in dict.fromkeys(commands)]
    runs.append(("the program in Python", [sys.executable, "-c", re.sub("^    ", "", python.group(), flags=re.M)]))
    for name, run in runs:
        done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            failed = 1
            print(f"{name}\nexpected exit code 0, found {done.returncode}\n{done.stdout}{done.stderr}")
print(f"{len(runs)} commands")
sys.exit(failed)
