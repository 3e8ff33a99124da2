"""Unpacks the chat templates of a source package: `unpack_templates.py PACKAGE.tar.gz FOLDER`."""

import sys
import tarfile
from pathlib import Path, PurePosixPath

SUFFIX = ".jinja"
PARENT = "templates"


def unpack_templates(package: Path, folder: Path) -> int:
    """Write each file `…/templates/NAME.jinja` of the package to the folder. Returns how many there are."""
    count = 0
    with tarfile.open(package) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.suffix != SUFFIX or path.parent.name != PARENT:
                continue
            content = archive.extractfile(member)
            if content is not None:
                (folder / path.name).write_bytes(content.read())
                count += 1
    return count


if __name__ == "__main__":
    if not unpack_templates(Path(sys.argv[1]), Path(sys.argv[2])):
        sys.exit(f"error: {sys.argv[1]} holds no chat templates")
