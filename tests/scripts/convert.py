#!/usr/bin/env python3
"""Which files scripts/convert ($1) reads, with stand-ins for torch and safetensors whose files are JSON."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TORCH = """
import json

class Tensor:
    def __init__(self, value):
        self.value = value
    def detach(self):
        return self
    clone = contiguous = detach

def load(path, map_location, weights_only):
    assert weights_only
    return {name: Tensor(value) for name, value in json.loads(path.read_text()).items()}
"""
SAFETENSORS = """
import json

def save_file(tensors, path, metadata):
    path.write_text(json.dumps({name: tensor.value for name, tensor in tensors.items()}))
"""


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def convert(script, root, files):
    """Returns what the script wrote for a folder with these files, or what it printed if it failed."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=root))
    for name, content in files.items():
        write(folder / name, content)
    done = subprocess.run([sys.executable, script, folder], env=dict(os.environ, PYTHONPATH=str(root / "packages")),
                          capture_output=True, text=True)
    return json.loads((folder / "model.safetensors").read_text()) if done.returncode == 0 else done.stderr


def index_of(*names):
    return {"weight_map": {f"t{i}": name for i, name in enumerate(names)}}


def main():
    script = sys.argv[1]
    single, index = "pytorch_model.bin", "pytorch_model.bin.index.json"
    cases = [
        ({single: {"a": 1}}, {"a": 1}),
        ({index: index_of("x.bin", "y.bin", "x.bin"), "x.bin": {"t0": 0, "t2": 2}, "y.bin": {"t1": 1}},
         {"t0": 0, "t1": 1, "t2": 2}),
        ({index: index_of("some/x.bin", "some/more/y.bin"), "some/x.bin": {"t0": 0}, "some/more/y.bin": {"t1": 1}},
         {"t0": 0, "t1": 1}),
        ({single: {"a": 1}, index: index_of("x.bin"), "x.bin": {"t0": 0}}, {"a": 1}),
        ({index: index_of("../x.bin")}, "found '../x.bin'"),
        ({index: index_of("some/../../x.bin")}, "in the same folder or below it, found 'some/../../x.bin'"),
        ({index: index_of("some\\x.bin")}, "found 'some\\\\x.bin'"),
        ({index: index_of("/etc/passwd")}, "found '/etc/passwd'"),
        ({index: index_of("x.bin")}, "x.bin: no such file"),
        ({single: {"a": 1}, "model.safetensors": "{}"}, "is there already"),
    ]
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        write(root / "packages" / "torch.py", TORCH)
        write(root / "packages" / "safetensors" / "__init__.py", "")
        write(root / "packages" / "safetensors" / "torch.py", SAFETENSORS)
        for files, expected in cases:
            found = convert(script, root, files)
            if found != expected if isinstance(expected, dict) else expected not in found:
                failed += 1
                print(f"{files}: expected {expected}, found {found}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
