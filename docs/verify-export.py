#!/usr/bin/env python3
"""Checks exported histories of zonewright without zonewright: python3 verify-export.py ZONE.ndjson ...

Checked are the hash of each version, the chain of the versions, and the records of the newest one: what docs/evidence.md defines. What is beside
the hashed bytes is checked by verify-texts.py: the manifest with its signature, and the texts that people read. Exit code 1 names what is not as it
was written or is lost; 3 says that all is as it was written, and that it is not known whether versions are missing."""
import hashlib, json, sys

def need(holds, why):                                        # no `assert`: with `python3 -O` there is none
    if not holds: raise ValueError(why)
def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()
def number(value, size=4): return value.to_bytes(size, "big")
def sized(octets): return number(len(octets)) + octets
unhex, CAUSE = bytes.fromhex, "verb kind namespace name uid resourceVersion manager operation place".split()

def version_hash(line):                                      # docs/evidence.md, "Version"
    parts = [b"\3", unhex(line["previousHash"]), unhex(line["contentHash"]), *(number(line[it], 8) for it in ("version", "timeMs", "records"))]
    parts += [number(0)] if line["previousSoa"] is None else [number(1), unhex(line["previousSoa"])]
    parts += [unhex(line["soa"]), number(len(line["causes"]))]
    for group in line["causes"]:
        parts += [number(len(group)), *(sized((cause[field] or "").encode()) for cause in group for field in CAUSE)]
    for rows in line["removed"], line["added"]: parts += [number(len(rows)), *(number(row["cause"]) + unhex(row["wire"]) for row in rows)]
    return sha(*parts).hex()

def content_hash(records, soa):                              # docs/evidence.md, "Content"
    owners = {}
    for wire in records:
        labels, at = [], 0
        while wire[at]: labels.insert(0, wire[at + 1:at + 1 + wire[at]].lower()); at += 1 + wire[at]
        owners.setdefault(tuple(labels), (wire[:at + 1], []))[1].append((wire[at + 1:at + 3], wire[at + 11:], wire))
    zeros = lambda name: next(at for at, digit in enumerate(sha(name.lower()).hex()[:4] + "1") if digit != "0")
    row = [(sha(b"\0", *(wire for *_, wire in sorted(rrs))), zeros(name)) for _, (name, rrs) in sorted(owners.items())]
    for turn in 1, 2, 3, 4:
        below, row, piece = row, [], []
        for at, (value, height) in enumerate(below, 1):
            piece.append(value)
            if height >= turn or at == len(below): row.append((sha(b"\1", *piece), height)); piece = []
    return sha(b"\2", soa[:-20], number(0), soa[-16:], *(value for value, _ in row)).hex()

def check_history(zone, *lines):                             # the last version, and what is not known
    records, last, doubts = {unhex(line["wire"]) for line in lines if line["type"] == "record"}, None, []
    need(len(records) == zone["recordsBefore"], "records from before the oldest version are missing or added")
    for line in lines[len(records):]:
        need(line["hash"] == version_hash(line), f"serial {line['serial']}: changed, its hash is another")
        need(line["version"] == 1 + (last["version"] if last else zone["after"]), f"serial {line['serial']}: a version is missing before it")
        need(not last or line["previousHash"] == last["hash"], f"serial {line['serial']}: broken chain")
        gone, come = ({unhex(row["wire"]) for row in line[field]} for field in ("removed", "added"))
        need(gone <= records and not come & (records - gone), f"serial {line['serial']}: it does not fit the records before it")
        lost = [it["name"] for group in line["causes"] for it in group if it["verb"] == "restored" and it["name"].startswith("the store")]
        need(all(name.endswith("at most") for name in lost), f"serial {line['serial']}: {lost}")
        records, last, doubts = (records - gone) | come, line, doubts + lost
    need(last and last["contentHash"] == content_hash(records, unhex(last["soa"])), "the records are others")
    return last, doubts

doubtful = []
for file in sys.argv[1:] or sys.exit(__doc__):
    try: last, doubts = check_history(*map(json.loads, open(file, "rb")))
    except Exception as error: sys.exit(f"{file}: not as it was exported: {error if isinstance(error, ValueError) else repr(error)}")
    print(f"{file}: {'; '.join(doubts) or 'good'}; newest version {last['version']}, serial {last['serial']}, hash {last['hash']}")
    doubtful += doubts
sys.exit(3 if doubtful else 0)
