"""Rust source as tools/circles and tools/code-size read it: without comments, and without what only tests compile."""

import re


def blank(text, keep_strings):
    """The text with comments as spaces, and the insides of strings and characters too unless they are kept.

    Line ends stay, so places stay.
    """
    out = list(text)

    def erase(start, end):
        for at in range(start, end):
            if out[at] != "\n":
                out[at] = " "

    at, size = 0, len(text)
    while at < size:
        char = text[at]
        start = at
        if text.startswith("//", at):
            at = text.find("\n", at)
            at = size if at < 0 else at
            erase(start, at)
        elif text.startswith("/*", at):
            depth, at = 1, at + 2
            while at < size and depth:
                if text.startswith("/*", at):
                    depth, at = depth + 1, at + 2
                elif text.startswith("*/", at):
                    depth, at = depth - 1, at + 2
                else:
                    at += 1
            erase(start, at)
        elif char == '"':
            at = string_end(text, at)
            if not keep_strings:
                erase(start + 1, at - 1)
        elif char == "'":
            end = character_end(text, at)
            if end and not keep_strings:
                erase(start + 1, end - 1)
            at = end or at + 1
        elif char.isalnum() or char == "_":
            word = re.compile(r"\w+").match(text, at).group()
            at += len(word)
            raw = re.compile(r'(#*)"').match(text, at)
            if word in ("r", "br", "cr") and raw:
                close = text.find('"' + raw.group(1), raw.end())
                close = size if close < 0 else close
                if not keep_strings:
                    erase(raw.end(), close)
                at = close + 1 + len(raw.group(1))
        else:
            at += 1
    return "".join(out)


def string_end(text, at):
    """Where the string that begins here ends."""
    at += 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def character_end(text, at):
    """Where the character that begins here ends; nothing if it is a lifetime."""
    if text.startswith("\\", at + 1):
        return text.find("'", at + 3) + 1
    return at + 3 if text.startswith("'", at + 2) else None


def bracket_end(code, at):
    """Behind the bracket that closes the one here."""
    depth = 0
    while at < len(code):
        if code[at] in "([{":
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return at


ITEM = re.compile(
    r"\s*(pub|fn|mod|use|impl|struct|enum|union|const|static|type|trait|async|unsafe|extern|macro_rules|let)\b"
)
CFG_TEST = re.compile(r"#!?\[\s*cfg\s*\(\s*(test|all\s*\(\s*test\b[^\]]*)\s*\)?\s*\)\s*\]")


def item_end(code, at):
    """Behind the item, field, variant or statement that begins here, its further attributes included."""
    while attribute := re.compile(r"\s*#\[").match(code, at):
        at = bracket_end(code, attribute.end() - 1)
    word = ITEM.match(code, at)
    is_use = re.compile(r"\s*(pub(\([^)]*\))?\s+)?(use|const|static|type|let)\b").match(code, at)
    while at < len(code):
        if code[at] == "{" and not is_use:
            return bracket_end(code, at)
        if code[at] in "([{":
            at = bracket_end(code, at)
        elif code[at] == ";" or (code[at] == "," and not word):
            return at + 1
        elif code[at] in ")]}":
            return at
        else:
            at += 1
    return at


def test_spans(code):
    """Where what has `#[cfg(test)]` stands, outermost only; a file that has it as a whole is all of it."""
    spans, at = [], 0
    while found := CFG_TEST.search(code, at):
        whole = code[found.start() + 1] == "!"
        at = len(code) if whole else item_end(code, found.end())
        spans.append((0 if whole else found.start(), at))
    return spans


def without(code, spans):
    """The text with these spans as spaces."""
    for start, end in spans:
        code = code[:start] + re.sub(r"[^\n]", " ", code[start:end]) + code[end:]
    return code


MODULE = re.compile(r"\bmod\s+(?:r#)?(\w+)\s*([;{])")


def module_file(folder, name, path_attribute=None):
    """The file of a module that is declared in a file whose modules lie in this folder."""
    if path_attribute:
        return folder / path_attribute
    single = folder / f"{name}.rs"
    return single if single.exists() else folder / name / "mod.rs"


def modules_folder(file, is_root):
    """Where the modules lie that a file declares."""
    return file.parent if is_root or file.name == "mod.rs" else file.parent / file.stem


def source_folders(root):
    """The folders of the crates' sources: `src` and `crates/*/src`."""
    folders = [root / "src"] if (root / "src").is_dir() else []
    return folders + sorted(it for it in root.glob("crates/*/src") if it.is_dir())


def roots(folder):
    """The files that crates begin with."""
    single = [folder / "lib.rs", folder / "main.rs"]
    more = [*folder.glob("bin/*.rs"), *folder.glob("bin/*/main.rs")]
    return [it for it in single + sorted(more) if it.exists()]
