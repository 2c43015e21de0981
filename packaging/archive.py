"""Archives whose bytes depend on names and contents only, not on times, users or the system."""

import gzip
import io
import tarfile


def tar(file, entries):
    """Writes entries (name, mode, user, data) to a file object. Without data an entry is a folder."""
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as out:
        for name, mode, user, data in entries:
            info = tarfile.TarInfo(name)
            info.mode, info.uid, info.gid = mode, user, user
            if data is None:
                info.type = tarfile.DIRTYPE
                out.addfile(info)
            else:
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))


def tar_gz(path, entries):
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        tar(packed, entries)


def tree(root, prefix):
    """The files below a folder as entries, programs (in folders `bin`) with the right to run."""
    for path in sorted(root.rglob("*")):
        name = f"{prefix}/{path.relative_to(root).as_posix()}"
        if path.is_dir():
            yield name, 0o755, 0, None
        else:
            yield name, 0o755 if path.parent.name == "bin" else 0o644, 0, path.read_bytes()
