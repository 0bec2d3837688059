"""Writes a C++ source that contains the batch scripts: batch_scripts.py OUTPUT HEAD AGENT"""
import sys
from pathlib import Path


def literal(text):
    lines = text.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?").splitlines()
    return "\n".join(f'    "{line}\\n"' for line in lines)


def main():
    output, head, agent = (Path(name) for name in sys.argv[1:4])
    output.write_text(f'''// Written by batch_scripts.py.
#include "actors/esctl/slurm/batch_scripts.h"

namespace es::actors::esctl {{

const std::string_view kHeadScript =
{literal(head.read_text())};

const std::string_view kAgentScript =
{literal(agent.read_text())};

}}  // namespace es::actors::esctl
''')


main()
