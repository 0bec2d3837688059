"""Writes a C++ source that contains the files of the web page: embed.py OUTPUT FILE..."""
import sys
from pathlib import Path

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".json": "application/json"}
# Compilers limit the length of one literal, and join neighbours.
PART = 8000


def literal(data):
    text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '\\"?' else f"\\{b:03o}" for b in data)
    return f'    "{text}"'


def path_of(file):
    if file.name == "index.html":
        return "/"
    return "/api/v1/openapi.json" if file.name == "openapi.json" else f"/web/{file.name}"


def main():
    output, files = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    lines = ['// Written by embed.py.', '#include "actors/service/shell/web_files.h"', "",
             "namespace es::actors::http {", "namespace {", ""]
    for number, file in enumerate(files):
        data = file.read_bytes()
        lines.append(f"constexpr char kFile{number}[] =")
        lines += [literal(data[at:at + PART]) for at in range(0, len(data), PART)] or ['    ""']
        lines[-1] += ";"
    lines += ["", "constexpr WebFile kFiles[] = {"]
    for number, file in enumerate(files):
        lines.append(f'    {{"{path_of(file)}", "{TYPES[file.suffix]}", '
                     f"{{kFile{number}, sizeof kFile{number} - 1}}}},")
    lines += ["};", "", "}  // namespace", "", "const WebFile* web_file(std::string_view path) {",
              "  for (const WebFile& file : kFiles)", "    if (path == file.path) return &file;",
              "  return nullptr;", "}", "", "}  // namespace es::actors::http", ""]
    output.write_text("\n".join(lines))


main()
