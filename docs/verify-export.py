#!/usr/bin/env python3
"""Checks an export of zonewright without zonewright: python3 verify-export.py FOLDER [PUBLIC-KEY.pem] [HASH]

The folder is one that `zonewright export --history --to FOLDER` wrote. Checked are the form of the manifest, its signature (by
openssl, if a key is given), size and SHA-256 of each file, and in each history the hash of every version, the chain of the
versions, and the records of the newest one. docs/evidence.md defines the hashes. Exit code 1 names what is not as it was written.
With HASH, noted elsewhere, exit code 3: no version in these files has it, but versions before them may."""
import datetime, hashlib, json, pathlib, re, subprocess, sys

def need(holds, why):                   # no `assert`: with `python3 -O` there is none
    if not holds: raise ValueError(why)

def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()
def number(value, octets=4): return value.to_bytes(octets, "big")
def stamp(ms): return f"{datetime.datetime.fromtimestamp(ms // 1000, datetime.timezone.utc):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"
def labels(wire):                       # the labels of an owner, the last one first, in lower case
    found, at = [], 0
    while wire[at]: found.insert(0, wire[at + 1:at + 1 + wire[at]].lower()); at += 1 + wire[at]
    return found, at + 1

def version_hash(line):
    text = lambda cause, field: (lambda it: number(len(it)) + it)((cause[field] or "").encode())
    records = lambda rows: [number(len(rows))] + [number(row["cause"]) + bytes.fromhex(row["wire"]) for row in rows]
    fields = "verb kind namespace name uid resourceVersion manager operation place".split()
    causes = [number(len(line["causes"]))]
    for group in line["causes"]:
        causes += [number(len(group))] + [text(cause, field) for cause in group for field in fields]
    soas = [number(0)] if line["previousSoa"] is None else [number(1), bytes.fromhex(line["previousSoa"])]
    return sha(b"\3", bytes.fromhex(line["previousHash"]), bytes.fromhex(line["contentHash"]),
               *(number(line[field], 8) for field in ("version", "timeMs", "records")),
               *soas, bytes.fromhex(line["soa"]), *causes, *records(line["removed"]), *records(line["added"])).hex()

def content_hash(wires, soa):
    owners = {}
    for wire in wires:
        name, end = labels(wire)
        owners.setdefault(tuple(name), []).append((wire[end:end + 2], wire[end + 10:], wire, end))
    row = []
    for name, rows in sorted(owners.items()):
        lower = sha(rows[0][2][:rows[0][3]].lower()).hex()
        row.append((sha(b"\0", *(each[2] for each in sorted(rows))), min(4, len(lower) - len(lower.lstrip("0")))))
    for turn in 1, 2, 3, 4:
        after, piece = [], []
        for at, (value, height) in enumerate(row):
            piece.append(value)
            if height >= turn or at + 1 == len(row): after.append((sha(b"\1", *piece), height)); piece = []
        row = after
    return sha(b"\2", soa[:-20], number(0), soa[-16:], *(value for value, _ in row)).hex()

def check_history(lines, entry, hashes):
    zone, wires, last = json.loads(lines[0]), set(), None
    if zone["after"]: hashes["begins"] = True
    for line in map(json.loads, lines[1:]):
        if line["type"] == "record": wires.add(bytes.fromhex(line["wire"])); continue
        need(line["hash"] == version_hash(line), f"serial {line['serial']}: changed, its hash is another")
        want = zone["after"] + 1 if last is None else last["version"] + 1
        need(line["version"] == want, f"serial {line['serial']}: version {want} is missing before it")
        need(last is None or line["previousHash"] == last["hash"], f"serial {line['serial']}: broken chain")
        gone, come = ({bytes.fromhex(row["wire"]) for row in line[field]} for field in ("removed", "added"))
        need(gone <= wires and not come & (wires - gone), f"serial {line['serial']}: it does not fit the records before it")
        wires, last = (wires - gone) | come, line
        hashes[line["hash"]] = f"serial {line['serial']} of {line['zone']}"
    need(last and last["contentHash"] == content_hash(wires, bytes.fromhex(last["soa"])), "the records are others")
    said = [entry[field] for field in ("zone", "serial", "time", "timeMs", "hash")]
    need(said == [last[field] for field in ("zone", "serial", "time", "timeMs", "hash")], "the manifest says another newest version")
    need(stamp(last["timeMs"]) == last["time"] and entry["versions"] == last["version"] - zone["after"], "a time or number is another")

def main(folder, key=None, noted=None):
    folder, name, hashes = pathlib.Path(folder), "manifest.json", {}
    if not (folder / name).is_file(): sys.exit(f"{folder}: there is no {name}: name a folder that `zonewright export --history` wrote")
    try:
        text = (folder / name).read_bytes()
        manifest = json.loads(text)
        again = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        need(again.encode() == text and manifest["form"] == "zonewright export 1"
             and manifest["time"] == stamp(manifest["timeMs"]), "it is not written as it was exported")
        if key:
            signature = subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", key, "-in", folder / name,
                                        "-sigfile", folder / (name + ".sig")], capture_output=True, text=True)
            need(signature.returncode == 0, f"{name}.sig is not its signature with {key}: {signature.stderr or signature.stdout}".strip())
        for entry in manifest["files"]:
            name = entry["file"]
            need("/" not in name, "it is in another folder")
            size = (folder / name).stat().st_size
            need(size == entry["bytes"], f"it has {size} bytes, not {entry['bytes']}")
            text = (folder / name).read_bytes()
            need(sha(text).hex() == entry["sha256"], "its SHA-256 is another")
            check_history(text.splitlines(), entry, hashes)
            print(f"{name}: good; {entry['versions']} versions, newest serial {entry['serial']}, hash {entry['hash']}")
    except Exception as error:  # whatever a changed file leads to, it is that file's fault
        sys.exit(f"{folder / name}: {error}")
    print(f"{folder / 'manifest.json'}: good; " + ("signed with this key" if key else "the signature was not checked: add PUBLIC-KEY.pem"))
    if noted in hashes: print(f"hash {noted} is that of {hashes[noted]}")
    elif noted and "begins" not in hashes: sys.exit(f"no version has the hash {noted}, and none is missing: it is the hash of another history")
    elif noted:
        print(f"no version in these files has the hash {noted}: it is that of a version before them, or of another history", file=sys.stderr)
        sys.exit(3)

if __name__ == "__main__":
    noted = [word.lower() for word in sys.argv[2:] if re.fullmatch("[0-9a-fA-F]{64}", word)]
    keys = [word for word in sys.argv[2:] if word.lower() not in noted]
    if len(sys.argv) < 2 or len(noted) > 1 or len(keys) > 1: sys.exit(__doc__)
    main(sys.argv[1], *(keys or [None]), *noted)
