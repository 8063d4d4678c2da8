"""Checks with the C compiler that the enums and structs of python/vkformer/_library.py are those of the headers.

usage: layout.py SOURCE CC
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
import types

source, compiler = sys.argv[1:3]
# The module without the package, which would open the library.
library = types.ModuleType("library")
path = os.path.join(source, "python/vkformer/_library.py")
with open(path, encoding="utf-8") as file:
    exec(compile(file.read(), path, "exec"), library.__dict__)

headers = ""
for name in ("vkformer.h", "run.h", "text.h"):
    with open(os.path.join(source, "include/vkformer", name), encoding="utf-8") as file:
        headers += re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)


def body(kind, name):
    found = re.search(rf"typedef {kind} {name} {{(.*?)}} {name};", headers, re.S)
    if not found:
        sys.exit(f"expected {kind} {name} in the headers, found none")
    return found.group(1)


# The version is repeated for pip, in the name of the shared library and in Debian's package.
version = ".".join(re.findall(r"#define VKF_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", headers))
for path, expected in (
    ("python/pyproject.toml", f'version = "{version}"'),
    ("python/vkformer/_library.py", f'"libvkformer.so.{version.rpartition(".")[0]}"'),
    ("debian/control", f"Package: libvkformer{version.rpartition('.')[0]}\n"),
):
    with open(os.path.join(source, path), encoding="utf-8") as file:
        if expected not in file.read():
            sys.exit(f"{path}: expected {expected.strip()}, found another version")

lines = ["#include <stddef.h>", "#include <vkformer/vkformer.h>"]
n = 0
for python, name, begins in library.ENUMS:
    in_c = {word for word in re.findall(r"(VKF_\w+) =", body("enum", name)) if not word.endswith("_COUNT")}
    in_python = {begins + value.name for value in python}
    if in_c != in_python:
        sys.exit(f"{name}: expected the enumerators {sorted(in_c)}, found {sorted(in_python)}")
    for value in python:
        lines.append(f'_Static_assert({begins}{value.name} == {value.value}, "{begins}{value.name}");')
        n += 1
for python, name in library.STRUCTS:
    # The names of the members: in each declaration the words before a comma, a bracket or the end.
    in_c = []
    for declaration in body("struct", name).split(";"):
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        for part in declaration.split(",") if not pointer else [pointer.group(1)]:
            word = re.search(r"(\w+)\s*(\[\w+\])?\s*$", part.strip())
            if word:
                in_c.append(word.group(1))
    in_python = [field[0] for field in python._fields_]
    if in_c != in_python:
        sys.exit(f"{name}: expected the members {in_c}, found {in_python}")
    lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(python)}, "{name}");')
    for member in in_python:
        field = getattr(python, member)
        lines.append(f'_Static_assert(offsetof({name}, {member}) == {field.offset}, "{name}.{member}");')
        lines.append(f'_Static_assert(sizeof((({name} *)0)->{member}) == {field.size}, "{name}.{member}");')
        n += 2
# Each function has as many arguments as its declaration.
for name, (_, arguments) in library.FUNCTIONS.items():
    found = re.search(rf"\b{name}\(([^;]*)\);", headers)
    if not found:
        sys.exit(f"expected the function {name} in the headers, found none")
    declared = 0 if found.group(1).strip() == "void" else len(found.group(1).split(","))
    if declared != len(arguments):
        sys.exit(f"{name}: expected {declared} arguments, found {len(arguments)}")
    n += 1
if n < 250:
    sys.exit(f"expected 250 comparisons or more, found {n}")
with tempfile.TemporaryDirectory() as folder:
    c_file = os.path.join(folder, "layout.c")
    with open(c_file, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\nint main(void) { return 0; }\n")
    command = [compiler, "-std=c11", "-fsyntax-only", "-I", os.path.join(source, "include"), c_file]
    if subprocess.run(command).returncode != 0:
        sys.exit("the structs or enums of python/vkformer/_library.py differ from the headers")
print(n, "comparisons")
