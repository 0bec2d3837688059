"""A rule of check_tree.py: comments and documents use the standard terms and complete sentences.

PHRASES lists wording that readers outside of the project cannot understand, or that speaks of
programs as of people, with what to write instead. A phrase is searched for in comments, docstrings
and documents, but not in code and not in strings.
"""
import re
import subprocess

PERSON = "name the process, the actor, the job or the user"
PHRASES = [
    (r"[Ss]o (many|much)\b(?! (that|of))", "state the number, or say `this number of`"),
    (r"[Ss]o long as", "write `while` or `if`"),
    (r"\b[Ww]hom\b", PERSON),
    (r"\b([Ss]ome|[Aa]ny|[Ee]very|[Nn]o)body\b", PERSON),
    (r"\b[Ww]hoever\b", PERSON),
    (r"\b(is|are|was|were|be|been) told (of|about|apart|anew)\b",
     "write `receives`, `is reported to` or `is distinguished from`"),
    (r"\btells? (of|apart)\b", "write `reports` or `distinguishes`"),
    (r"\b([Hh]ungry|[Ll]osers?)\b", "say which jobs or devices these are"),
    (r"(?<!`)\b[Pp]lainly\b(?!`)", "say what is left out, for example `without a table`"),
    (r"\b[Ll]ets? go of\b", "write `releases` or `removes`"),
    (r"\b(come|comes|came) to nothing\b", "say what happens instead"),
    (r"\bas good as\b", "state the exact property"),
    (r"\bwhat is whole\b", "write `the undamaged part`"),
    (r"\bhouse('s)? rules?\b|\b[Tt]he house\b", "write `the rules of the source tree`"),
    (r"\b(DESIGN|CANONICAL)\b", "this document is not in the repository: cite a page of docs/"),
    (r"\bPROTOCOL §|§ ?\d", "cite the heading of a page of docs/"),
]
C_LIKE = (".h", ".cc", ".cu", ".cuh")
HASH_LIKE = (".py", ".sh", ".toml", ".build", ".capnp", "")
C_TOKEN = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\''
                     r'|(?P<comment>//[^\n]*|/\*(?:.|\n)*?\*/)')
HASH_TOKEN = re.compile(r'(?P<docstring>"""(?:.|\n)*?""")|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
                        r'|(?P<comment>(?<!\S)#[^\n]*)')


def prose(name, text):
    """(line number, line) of everything in a file that is written for readers."""
    if name.endswith(".md"):
        yield from enumerate(text.splitlines(), 1)
        return
    token = C_TOKEN if name.endswith(C_LIKE) else HASH_TOKEN
    for match in token.finditer(text):
        part = match.groupdict().get("docstring") or match["comment"]
        if part:
            yield from enumerate(part.splitlines(), text.count("\n", 0, match.start()) + 1)


def files(root):
    """The paths of a checkout that git knows; all files where there is no git repository."""
    known = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True)
    names = known.stdout.splitlines() if known.returncode == 0 and (root / ".git").exists() else [
        path.relative_to(root).as_posix() for path in sorted(root.rglob("*"))]
    for name in names:
        path = root / name
        is_script = path.suffix == "" and name.startswith(("scripts/", ".ci/"))
        is_text = path.suffix and path.suffix in C_LIKE + HASH_LIKE + (".md",)
        if (is_text or is_script) and path.is_file():
            yield name, path.read_text(errors="replace")


def check_phrases(root):
    for name, text in files(root):
        for number, line in prose(name, text):
            for pattern, instead in PHRASES:
                found = re.search(pattern, line)
                if found:
                    yield f"phrase: {name}:{number}: \"{found[0]}\": {instead}"
