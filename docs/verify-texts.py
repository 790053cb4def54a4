#!/usr/bin/env python3
"""Checks what is beside the hashed bytes in an export of zonewright: python3 verify-texts.py FOLDER [PUBLIC-KEY.pem]

FOLDER is what `zonewright export --history --to FOLDER` wrote. verify-export.py checks the hashes, which are of `wire`, `soa`, `timeMs` and
`causes`. This checks the manifest: its signature (by openssl, if a key is given), size and SHA-256 of each file, and what it says of the newest
versions. And the rest of each line: `record` against `wire`, `time` against `timeMs`, `serial` and `zone` against `soa`, that there is no other field,
and that nothing is written in a form in which two readers could see two things. Exit code 1 names the first file or line that is not so."""
import collections, datetime, hashlib, ipaddress, json, pathlib, re, struct, subprocess, sys

class Fault(Exception): pass

def need(holds, why):                   # no `assert`: with `python3 -O` there is none
    if not holds: raise Fault(why)

def unhex(text): need(re.fullmatch("([0-9a-f]{2})*", text), f"{text} is not hexadecimal"); return bytes.fromhex(text)
def stamp(ms): return f"{datetime.datetime.fromtimestamp(ms // 1000, datetime.timezone.utc):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"

TYPES = {1: "A", 2: "NS", 5: "CNAME", 12: "PTR", 16: "TXT", 28: "AAAA", 33: "SRV"}
CAUSE = "verb kind namespace name uid resourceVersion manager operation place".split()
FIELDS = {"zone": "type form zone after recordsBefore", "record": "type record wire", "version":
          "type zone version serial previous time timeMs records previousSoa soa previousHash contentHash hash causes removed added"}
NUMBERS = "version timeMs records after recordsBefore cause".split()
NEWEST = "zone serial time timeMs hash".split()

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
    for field in NUMBERS: need(type(line.get(field, 0)) is int, f"{field} is no number")
    if line["type"] == "record": check_record(line, others)
    for row in line.get("removed", []) + line.get("added", []):
        need(set(row) == {"record", "wire", "cause"} and type(row["cause"]) is int, "a record has other fields")
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

def check_history(lines, entry, others):
    need(lines, "it is empty")
    zone, last = read_line(lines[0], others), None
    need(zone["type"] == "zone" and zone["form"] == "zonewright history 1", "its first line is not that of a zone")
    for at, text in enumerate(lines[1:], 2):
        try: line = read_line(text, others)
        except Fault as error: raise Fault(f"line {at}: {error}")
        need(line["type"] == "version" or line["type"] == "record" and not last, f"line {at}: a {line['type']} does not belong here")
        if line["type"] == "record": continue
        need(line["zone"] == zone["zone"], f"line {at}: it is of another zone than the first line")
        last = line
    need([entry[field] for field in NEWEST] == [last[field] for field in NEWEST], "the manifest says another newest version")
    need(entry["versions"] == last["version"] - zone["after"], "the manifest says another number of versions")

def main(folder, key=None):
    folder, name = pathlib.Path(folder), "manifest.json"
    try:
        text = (folder / name).read_bytes()
        manifest = json.loads(text)
        signature = folder / f"{name}.sig"
        openssl = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", key, "-in", folder / name, "-sigfile", signature]
        need(not key or signature.exists(), f"{signature.name} is not there")
        need(not key or subprocess.run(openssl, capture_output=True).returncode == 0, f"{signature.name} is not its signature with {key}")
        again = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        need(again.encode() == text and manifest["form"] == "zonewright export 1"
             and manifest["time"] == stamp(manifest["timeMs"]), "it is not written as it was exported")
        for entry in manifest["files"]:
            name, others = pathlib.PurePath(entry["file"]).name, collections.Counter()
            need(name == entry["file"], "it is in another folder")
            text = (folder / name).read_bytes()
            said = len(text) == entry["bytes"] and hashlib.sha256(text).hexdigest() == entry["sha256"]
            need(said, "its size or its SHA-256 is not the one of the manifest")
            *lines, end = text.split(b"\n")
            need(not end, "its last line does not end as it was written")
            check_history(lines, entry, others)
            print(f"{name}: the texts of {len(lines)} lines are those of their bytes")
            if others: print(f"{name}: of {sum(others.values())} records only the wire form is checked, not the text: types "
                             + ", ".join(f"TYPE{kind}" for kind in sorted(others)))
        for name in {path.name for path in folder.glob("*.ndjson")} - {entry["file"] for entry in manifest["files"]}:
            need((folder / name).read_bytes().startswith(b'{"note":'), "the manifest does not name it")
    except (Fault, OSError) as error:
        sys.exit(f"{folder / name}: {error}")
    except KeyError as error:
        sys.exit(f"{folder / name}: it is not as it was exported: there is no {error}, or it has another value")
    except Exception as error:  # whatever a changed file leads to, it is that file's fault
        sys.exit(f"{folder / name}: it is not as it was exported: {error}")

    print(f"{folder / 'manifest.json'}: good; {'signed with this key' if key else 'the signature was not checked: add PUBLIC-KEY.pem'}")

if __name__ == "__main__": main(*sys.argv[1:]) if len(sys.argv) in (2, 3) else sys.exit(__doc__)
