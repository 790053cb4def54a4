#!/usr/bin/env python3
"""Checks an export of zonewright without zonewright: python3 verify-export.py FOLDER [PUBLIC-KEY.pem]

FOLDER is what `zonewright export --history --to FOLDER` wrote. Checked are the manifest's signature (by openssl, if a key is given), size and
SHA-256 of each file, the hash of each version, the chain of the versions, and the records of the newest one: what docs/evidence.md defines.
The texts that people read beside the hashed bytes are checked by verify-texts.py. Exit code 1 names what is not as it was written."""
import hashlib, json, pathlib, subprocess, sys

def need(holds, why):                                        # no `assert`: with `python3 -O` there is none
    if not holds: raise ValueError(why)
def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()
def number(value, size=4): return value.to_bytes(size, "big")
def sized(octets): return number(len(octets)) + octets
def rows(line, field): return [(row["cause"], bytes.fromhex(row["wire"])) for row in line[field]]

def version_hash(line):                                      # docs/evidence.md, "Version"
    parts = [b"\3", bytes.fromhex(line["previousHash"]), bytes.fromhex(line["contentHash"])]
    parts += [number(line[field], 8) for field in ("version", "timeMs", "records")]
    parts += [number(0)] if line["previousSoa"] is None else [number(1), bytes.fromhex(line["previousSoa"])]
    parts += [bytes.fromhex(line["soa"]), number(len(line["causes"]))]
    for group in line["causes"]:
        fields = "verb kind namespace name uid resourceVersion manager operation place".split()
        parts += [number(len(group)), *(sized((cause[field] or "").encode()) for cause in group for field in fields)]
    for field in "removed", "added":
        parts += [number(len(line[field])), *(number(cause) + wire for cause, wire in rows(line, field))]
    return sha(*parts).hex()

def content_hash(records, soa):                              # docs/evidence.md, "Content"
    owners = {}
    for wire in records:
        name, at = [], 0
        while wire[at]: name.insert(0, wire[at + 1:at + 1 + wire[at]].lower()); at += 1 + wire[at]
        owners.setdefault(tuple(name), (wire[:at + 1], []))[1].append((wire[at + 1:at + 3], wire[at + 11:], wire))
    row = []
    for _, (name, records) in sorted(owners.items()):
        digits = sha(name.lower()).hex()
        row.append((sha(b"\0", *(wire for _, _, wire in sorted(records))), min(4, len(digits) - len(digits.lstrip("0")))))
    for turn in 1, 2, 3, 4:
        after, piece = [], []
        for at, (value, height) in enumerate(row, 1):
            piece.append(value)
            if height >= turn or at == len(row): after.append((sha(b"\1", *piece), height)); piece = []
        row = after
    return sha(b"\2", soa[:-20], number(0), soa[-16:], *(value for value, _ in row)).hex()

def check_history(lines, entry):
    zone, records, last = lines[0], set(), None
    for line in lines[1:]:
        if not last and line["type"] == "record": records.add(bytes.fromhex(line["wire"])); continue
        need(line["hash"] == version_hash(line), f"serial {line['serial']}: changed, its hash is another")
        want = 1 + (last["version"] if last else zone["after"])
        need(line["version"] == want, f"serial {line['serial']}: version {want} is missing before it")
        need(not last or line["previousHash"] == last["hash"], f"serial {line['serial']}: broken chain")
        gone, come = ({wire for _, wire in rows(line, field)} for field in ("removed", "added"))
        need(gone <= records and not come & (records - gone), f"serial {line['serial']}: it does not fit the records before it")
        records, last = (records - gone) | come, line
    need(last and last["contentHash"] == content_hash(records, bytes.fromhex(last["soa"])), "the records are others")
    need(entry["hash"] == last["hash"] and entry["zone"] == zone["zone"], "the manifest says another newest version")
    return f"good; {last['version'] - zone['after']} versions, newest serial {last['serial']}, hash {last['hash']}"

def main(folder, key=None):
    folder, name = pathlib.Path(folder), "manifest.json"
    try:
        manifest = json.loads((folder / name).read_bytes())
        if key:
            files = ["-inkey", key, "-in", folder / name, "-sigfile", folder / f"{name}.sig"]
            check = subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", *files], capture_output=True)
            need(check.returncode == 0, f"{name}.sig is not there, or it is not its signature with {key}")
        for entry in manifest["files"]:
            name = pathlib.PurePath(entry["file"]).name
            text = (folder / name).read_bytes()
            need(len(text) == entry["bytes"] and sha(text).hex() == entry["sha256"], "its size or its SHA-256 is another")
            print(f"{name}: {check_history([json.loads(line) for line in text.splitlines()], entry)}")
        for name in {path.name for path in folder.glob("*.ndjson")} - {entry["file"] for entry in manifest["files"]}:
            need((folder / name).read_bytes().startswith(b'{"note":'), "the manifest does not name it")
    except Exception as error:                               # whatever a changed file leads to, it is that file's fault
        sys.exit(f"{folder / name}: not as it was exported: {error if isinstance(error, (ValueError, OSError)) else repr(error)}")
    print(f"{folder / 'manifest.json'}: good; {'signed with this key' if key else 'the signature was not checked: add PUBLIC-KEY.pem'}")

if __name__ == "__main__": main(*sys.argv[1:]) if len(sys.argv) in (2, 3) else sys.exit(__doc__)
