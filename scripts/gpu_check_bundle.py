"""Makes the bundle of scripts/gpu_check: programs, the libraries that they need, small jobs and captured
models, the scripts."""
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# These libraries are part of every system, and belong to its kernel.
OF_THE_SYSTEM = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so")
# The libraries of the compiler are used only where those of the system are older.
OF_THE_COMPILER = re.compile(r"^lib(stdc\+\+|gcc_s)\.so")
BYTES_MAX = 40 << 20
HERE = Path(__file__).resolve().parent


def libraries(program):
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = re.findall(r"=> (/\S+)", out)
    return {Path(p).name: p for p in paths if not OF_THE_SYSTEM.match(Path(p).name)}


def copy_programs(programs, build, root):
    """`programs`: by name, the paths below the build directory."""
    if subprocess.run(["ninja", "-C", build, *programs.values()], stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"gpu_check: the programs cannot be built in {build}")
    for name, path in programs.items():
        subprocess.run(["strip", "-o", root / "bin" / name, build / path], check=True)
        for library, source in libraries(build / path).items():
            folder = "lib/compiler" if OF_THE_COMPILER.match(library) else "lib"
            shutil.copy(source, root / folder / library)


def capture(build, root):
    """Captures models where scripts/setup_pytorch has made its environment."""
    python = subprocess.run([HERE / "setup_pytorch", "--where"], capture_output=True, text=True, check=True).stdout
    if subprocess.run([python.strip(), "-B", HERE / "gpu_check_captured.py", build / "actors/esctl/esctl",
                       root / "captured"]).returncode:
        sys.exit("gpu_check: the models cannot be captured; run scripts/setup_pytorch")


def source():
    """The commit that the programs are built from."""
    ran = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return ran.stdout.strip()


def bundle(programs, scripts, build, file, peers):
    """`peers`: a directory with the PyTorch models for the comparison; it may be missing. Returns
    the exit status."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "gpu_check_bundle"
        for folder in ("bin", "lib/compiler", "jobs", "captured"):
            (root / folder).mkdir(parents=True)
        copy_programs(programs, build, root)
        capture(build, root)
        (root / "commit").write_text(source())
        for job in (HERE.parent / "configs/jobs").glob("tiny_*.toml"):
            shutil.copy(job, root / "jobs" / job.name)
        if (peers / "models.py").exists():
            (root / "peers").mkdir()
            shutil.copy(peers / "models.py", root / "peers" / "models.py")
        for script in scripts:
            shutil.copy(script, root / Path(script).name)
        # All programs contain the kernels: with a window of their size these are stored once.
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 2, "dict_size": 96 << 20}]
        with lzma.open(file, "w", filters=filters) as out, tarfile.open(fileobj=out, mode="w") as tar:
            tar.add(root, root.name)
    size = Path(file).stat().st_size
    print(f"{file}: {size / 2**20:.1f} MiB")
    return 0 if size <= BYTES_MAX else 1
