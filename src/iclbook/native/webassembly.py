"""The C sources compiled for the page: ``python -m iclbook.native.webassembly`` writes ``book/assets/models/kernels/attention.js``.

Pages are opened from the disk, where a script cannot fetch a file. So the bytes stand in a script, gzipped and in base64. clang and lld are needed to
write it (Debian: ``clang``, ``lld``), not to read the book.
"""

import base64
import gzip
import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..errors import UserError
from ..project import ends_in_one_line, find_root
from ..sources import without_gpu
from . import HERE

#: Activations of ``attention.c`` in the order of ``page.c``, with their numbers there.
ACTIVATIONS = {"softmax": 1, "affine": 2, "square": 3, "tanh": 4, "linear": 5}
EXPORTS = ("describe", "start", "train", "parameters")
#: D rows of a token and N responses: d = 5 covariates and one response. vectors.h refuses processors without fused multiply-adds, where torch is faster;
#: a page has no torch.
FLAGS = ("--target=wasm32", "-O3", "-msimd128", "-mbulk-memory", "-ffp-contract=off", "-fno-math-errno", "-nostdlib")
FLAGS += ("-DD=6", "-DN=1", "-DALLOW_SLOW")
LINKED = ("-z", "stack-size=262144", "--strip-all", "-O2")


def missing() -> list[str]:
    """The commands that compiling for the page needs and this machine lacks."""
    return [name for name in ("clang", "wasm-ld") if shutil.which(name) is None]


def compiler() -> str:
    """Versions of compiler and linker: the bytes depend on them."""
    found = []
    for name, command in (("clang", "clang"), ("lld", "wasm-ld")):
        text = subprocess.run([command, "--version"], capture_output=True, text=True).stdout
        found.append(f"{name} {re.search(r'[0-9.]+', text)[0]}")
    return ", ".join(found)


def compiled() -> bytes:
    """The module in WebAssembly."""
    by_activation = [("attention.c", f"-DACT={n}", f"-Dgradients=gradients_{name}") for name, n in ACTIVATIONS.items()]
    with tempfile.TemporaryDirectory() as folder:
        objects: list[str] = []
        for source, *flags in (*by_activation, ("counter.c",), ("adam.c",), ("page/page.c",)):
            objects.append(f"{folder}/{len(objects)}.o")
            places = f"-I{HERE / 'page'}", "-c", str(HERE / source), "-o", objects[-1]
            subprocess.run(["clang", *FLAGS, *flags, *places], check=True)
        made, exports = Path(folder) / "attention.wasm", [f"--export={name}" for name in EXPORTS]
        subprocess.run(["wasm-ld", "--no-entry", *exports, *LINKED, *objects, "-o", str(made)], check=True)
        return made.read_bytes()


def sources() -> str:
    """Digest of what is compiled, without comments, and of how."""
    code = "\n".join(without_gpu(path.read_text(encoding="utf-8")) for path in sorted(HERE.rglob("*.[ch]")))
    words = [*re.sub(r"/\*.*?\*/|//[^\n]*", "", code, flags=re.DOTALL).split(), *FLAGS, *LINKED]
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]


def is_current() -> bool:
    """Whether the stored module was compiled from today's sources; also where there is none."""
    return not script().is_file() or f'sources: "{sources()}"' in script().read_text(encoding="utf-8")


def script() -> Path:
    """Where the compiled module stands."""
    return find_root() / "book" / "assets" / "models" / "kernels" / "attention.js"


def stored() -> tuple[str, bytes]:
    """Compiler of the stored module, and its bytes."""
    made, text = re.search(r'made: "(.*?)",.* bytes: "(.*?)"', script().read_text(encoding="utf-8")).groups()
    return made, gzip.decompress(base64.b64decode(text))


def write() -> Path:
    """Compile the module and store it."""
    if lacking := missing():
        raise UserError(
            f"not installed: {', '.join(lacking)}", "Install clang and lld (Debian: apt-get install clang lld)."
        )
    text = base64.b64encode(gzip.compress(compiled(), 9, mtime=0)).decode()
    path = script()
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "/* src/iclbook/native/*.c in WebAssembly, gzipped, in base64: written by python -m iclbook.native.webassembly. */\n"
        f'iclbook.kernels = {{ made: "{compiler()}", sources: "{sources()}", bytes: "{text}" }};\n',
        encoding="utf-8",
    )
    return path


if __name__ == "__main__":
    with ends_in_one_line():
        print(write())
