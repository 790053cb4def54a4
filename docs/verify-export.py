#!/usr/bin/env python3
"""Checks an export of zonewright without zonewright: python3 verify-export.py FOLDER [PUBLIC-KEY.pem] [HASH]

The folder is one that `zonewright export --history --to FOLDER` wrote. Checked are the form of the manifest, its signature (by
openssl, if a key is given), size and SHA-256 of each file, and in each history the form of every line, its texts (record, time,
serial) against the bytes that are hashed (wire, timeMs, soa), the hash of every version, the chain of the versions, and the
records of the newest one. docs/evidence.md defines the hashes. Exit code 1 names what is not as it was written.
With HASH, noted elsewhere, exit code 3: no version in these files has it, but versions before them may."""
import collections, datetime, hashlib, ipaddress, json, pathlib, re, struct, subprocess, sys

class Fault(Exception): pass

def need(holds, why):                   # no `assert`: with `python3 -O` there is none
    if not holds: raise Fault(why)

def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()
def number(value, octets=4): need(type(value) is int, f"{value} is no number"); return value.to_bytes(octets, "big")
def unhex(text): need(re.fullmatch("([0-9a-f]{2})*", text), f"{text} is not hexadecimal"); return bytes.fromhex(text)
def stamp(ms): return f"{datetime.datetime.fromtimestamp(ms // 1000, datetime.timezone.utc):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"
def labels(wire):                       # the labels of an owner, the last one first, in lower case
    found, at = [], 0
    while wire[at]: found.insert(0, wire[at + 1:at + 1 + wire[at]].lower()); at += 1 + wire[at]
    return found, at + 1

TYPES = {1: "A", 2: "NS", 5: "CNAME", 12: "PTR", 16: "TXT", 28: "AAAA", 33: "SRV"}
CAUSE = "verb kind namespace name uid resourceVersion manager operation place".split()
FIELDS = {"zone": "type form zone after recordsBefore", "record": "type record wire", "version":
          "type zone version serial previous time timeMs records previousSoa soa previousHash contentHash hash causes removed added"}

def text_of(octets, special):           # octets as a master file has them
    return "".join(chr(it) if 32 <= it < 127 and chr(it) not in special else f"\\{it:03}" if not 32 < it < 127 else f"\\{chr(it)}"
                   for it in octets)
def name_of(wire, ends=False):          # a name as text, and its length
    name, at = "", 0
    while wire[at]: name += text_of(wire[at + 1:at + 1 + wire[at]], ' ".;\\()@$') + "."; at += 1 + wire[at]
    need(not ends or at + 1 == len(wire), "a name is followed by more")
    return name or ".", at + 1
def data_of(kind, data):                # the data of a record as text
    if kind in (1, 28): return str(ipaddress.ip_address(data))
    if kind == 33: return " ".join(map(str, struct.unpack("!HHH", data[:6]))) + " " + name_of(data[6:], True)[0]
    if kind != 16: return name_of(data, True)[0]
    strings = []
    while data: strings.append('"' + text_of(data[1:1 + data[0]], '"\\') + '"'); data = data[1 + data[0]:]
    return " ".join(strings)

def check_record(row, others):          # the text that people read, against the bytes that are hashed
    wire, said = unhex(row["wire"]), row["record"]
    owner, end = name_of(wire)
    kind, _, ttl, _ = struct.unpack("!HHIH", wire[end:end + 10])
    if kind not in TYPES: others[kind] += 1; return
    head, data = f"{owner} {ttl} IN {TYPES[kind]} ", data_of(kind, wire[end + 10:])
    if kind == 28 and said.startswith(head) and re.fullmatch("[0-9a-f:.]+", said[len(head):]):  # ::ffff:192.0.2.1 has two forms
        said = head + str(ipaddress.ip_address(said[len(head):]))
    need(said == head + data, f"the record {said!r} is not that of its wire form, {head + data!r}")

def read_line(text, others):            # a line, whose bytes must be those that its values give
    line = json.loads(text)
    again = json.dumps(line, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    need(again.encode() == text and set(line) == set(FIELDS[line["type"]].split()), "a line is not written as it was exported")
    if line["type"] == "record": check_record(line, others)
    for row in line.get("removed", []) + line.get("added", []):
        need(set(row) == {"record", "wire", "cause"}, "a record has other fields")
        check_record(row, others)
    for cause in (cause for group in line.get("causes", []) for cause in group):
        is_text = all(type(value) is str or field == "kind" and value is None for field, value in cause.items())
        need(set(cause) == set(CAUSE) and is_text, "a cause has other fields")
    for serial, soa in (("serial", "soa"), ("previous", "previousSoa")) if line["type"] == "version" else ():
        wire = unhex(line[soa]) if line[soa] is not None else None
        need(line[serial] == (wire and int.from_bytes(wire[-20:-16], "big")), f"the serial {line[serial]} is not that of {soa}")
        need(not wire or name_of(wire)[0] == line["zone"], f"the zone {line['zone']} is not that of {soa}")
    need(line["type"] != "version" or line["time"] == stamp(line["timeMs"]), "the time is not that of timeMs")
    return line

def version_hash(line):
    text = lambda cause, field: (lambda it: number(len(it)) + it)((cause[field] or "").encode())
    records = lambda rows: [number(len(rows))] + [number(row["cause"]) + unhex(row["wire"]) for row in rows]
    causes = [number(len(line["causes"]))]
    for group in line["causes"]:
        causes += [number(len(group))] + [text(cause, field) for cause in group for field in CAUSE]
    soas = [number(0)] if line["previousSoa"] is None else [number(1), unhex(line["previousSoa"])]
    return sha(b"\3", unhex(line["previousHash"]), unhex(line["contentHash"]),
               *(number(line[field], 8) for field in ("version", "timeMs", "records")),
               *soas, unhex(line["soa"]), *causes, *records(line["removed"]), *records(line["added"])).hex()

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

def check_history(lines, entry, hashes, others):
    need(lines, "it is empty")
    zone, wires, last = read_line(lines[0], others), set(), None
    need(zone["type"] == "zone" and zone["form"] == "zonewright history 1", "its first line is not that of a zone")
    if zone["after"]: hashes["begins"] = True
    for at, text in enumerate(lines[1:], 2):
        try: line = read_line(text, others)
        except Fault as error: raise Fault(f"line {at}: {error}")
        need(line["type"] != "zone", f"line {at}: a history begins within another one")
        if line["type"] == "record":
            need(not last, f"line {at}: a record is not before the versions")
            wires.add(unhex(line["wire"]))
            continue
        need(last or len(wires) == zone["recordsBefore"], f"line {at}: the number of records before it is another")
        need(line["zone"] == zone["zone"], f"line {at}: it is of another zone than the first line")
        need(line["hash"] == version_hash(line), f"serial {line['serial']}: changed, its hash is another")
        want = zone["after"] + 1 if last is None else last["version"] + 1
        need(line["version"] == want, f"serial {line['serial']}: version {want} is missing before it")
        need(last is None or line["previousHash"] == last["hash"], f"serial {line['serial']}: broken chain")
        gone, come = ({unhex(row["wire"]) for row in line[field]} for field in ("removed", "added"))
        need(gone <= wires and not come & (wires - gone), f"serial {line['serial']}: it does not fit the records before it")
        wires, last = (wires - gone) | come, line
        hashes[line["hash"]] = f"serial {line['serial']} of {line['zone']}"
    need(last and last["contentHash"] == content_hash(wires, unhex(last["soa"])), "the records are others")
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
        is_there = (folder / (name + ".sig")).is_file()
        need(is_there or not key, f"its signature {name}.sig is not there")
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
            need(text.endswith(b"\n") or not text, "its last line does not end as it was written")
            check_history(text.split(b"\n")[:-1], entry, hashes, others := collections.Counter())
            print(f"{name}: good; {entry['versions']} versions, newest serial {entry['serial']}, hash {entry['hash']}")
            if others: print(f"{name}: of {sum(others.values())} records only the wire form is checked, not the text: types "
                             + ", ".join(f"TYPE{kind}" for kind in sorted(others)))
        for name in sorted({path.name for path in folder.glob("*.ndjson")} - {entry["file"] for entry in manifest["files"]}):
            if (folder / name).read_bytes().startswith(b'{"note":'): continue  # signed notes
            need(not key, "the manifest does not name it")
            print(f"{name}: not checked: the manifest does not name it")
    except (Fault, OSError) as error:
        sys.exit(f"{folder / name}: {error}")
    except KeyError as error:
        sys.exit(f"{folder / name}: it is not as it was exported: there is no {error}, or it has another value")
    except Exception as error:  # whatever a changed file leads to, it is that file's fault
        sys.exit(f"{folder / name}: it is not as it was exported: {error}")
    signed = "signed with this key" if key else "it says that it is signed, but its signature manifest.json.sig is not there" \
        if manifest["key"] and not is_there else "the signature was not checked: add PUBLIC-KEY.pem"
    print(f"{folder / 'manifest.json'}: good; {signed}")
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
