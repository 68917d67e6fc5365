"""Doxygen's filter: our headers' plain comments, as those that it reads.

A comment before a declaration, without an empty line between, is the declaration's; one behind
it on the line is too, with the lines below that go on. The first of a file is the file's. All is in
the namespace graphpipe, which is left out, as private members are.
"""
import pathlib
import re
import sys

TRAILING = re.compile(r"^(.*\S.*?)\s+// ?(.*)$")


def escaped(words):
    words = words.replace("\\", "\\\\").replace("@", "\\@").replace("<", "\\<")
    return re.sub(r"`([^`]+)`", r"<tt>\1</tt>", words)


def marked(lines):
    first, goes_on = True, None
    hidden = False  # from "private:" to the class's end
    for line in lines:
        hidden = line.strip() == "private:" or hidden and not line.startswith("}")
        if hidden or line in ("namespace graphpipe {", "}  // namespace graphpipe"):
            continue
        stripped = line.lstrip()
        if stripped.startswith("//"):
            words = escaped(stripped[2:])
            column = len(line) - len(stripped)
            if goes_on is not None and column == goes_on:
                yield f"{'':{column}}///<{words}"
                continue
            yield f"{'':{column}}///{' @file' + chr(10) + '///' if first else ''}{words}"
            first, goes_on = False, None
            continue
        first = False
        found = TRAILING.match(line)
        goes_on = line.index("//", found.end(1)) if found and '"' not in line else None
        yield f"{found[1]}  ///< {escaped(found[2])}" if goes_on is not None else line


def main():
    print("\n".join(marked(pathlib.Path(sys.argv[1]).read_text().splitlines())))


if __name__ == "__main__":
    main()
