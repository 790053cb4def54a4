//! Tests of master files of any bytes: refused with reasons, or read. The printed form of a file that was read gives
//! the same records.

use ::fuzz::{Fuzz, Outcome};

use super::*;

/// The zones of the golden cases that have few lines, and one with all features of the format.
fn seeds() -> Vec<Vec<u8>> {
    let all = format!(
        "{TOP}$ORIGIN a.z.\n$TTL 1h\n*\tIN 5m MX 10 mail ; note\n@ TXT \"a b\" (\n \"c\\\"\\200\" )\nb CNAME c\n\
         $GENERATE 1-5/2 h-$ A 10.0.0.${{0,2,d}}\n$INCLUDE other s\n_x._tcp SRV 0 0 80 c\nc TYPE65280 \\# 3 0a0b0c\n\
         d CAA 0 issue \"x\"\ne 1W SSHFP 1 1 aabb\n\\.dot A 192.0.2.9\nf NS ns.f\nns.f AAAA 2001:db8::1\n"
    );
    let mut seeds = vec![all.into_bytes(), TOP.as_bytes().to_vec()];
    for case in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../zones")).unwrap() {
        for entry in std::fs::read_dir(case.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "zone")
            {
                let text = std::fs::read_to_string(path).unwrap();
                let lines: Vec<&str> = text.lines().take(12).collect();
                seeds.push(
                    lines
                        .join("\n")
                        .replace("cluster.local.", "z.")
                        .into_bytes(),
                );
            }
        }
    }
    seeds
}

/// Words of the format.
const WORDS: &[&[u8]] = &[
    b"\n",
    b"\"",
    b"(",
    b")",
    b";",
    b"\\",
    b"\\000",
    b"\\256",
    b"@",
    b"*",
    b".",
    b"..",
    b"$TTL ",
    b"$ORIGIN ",
    b"$INCLUDE other",
    b"$INCLUDE main",
    b"$GENERATE 0-3 ",
    b"${0,3,x}",
    b"$$",
    b" IN ",
    b" CH ",
    b" A ",
    b" TXT ",
    b" \\# ",
    b"4294967296",
    b"2147483648",
    b"1w2d",
    b"\0",
    b"\xff",
    b"\r\n",
    b"\t",
    b"TYPE1",
    b"CLASS1",
    b"a.z. ",
    b"outside. ",
];

/// Reads octets as `main`, which may include `other`.
fn target(input: &[u8]) -> Outcome {
    let other = b"inc A 192.0.2.77\n";
    // A range of a million lines is no fault, but takes long.
    if input.windows(9).any(|part| part == b"$GENERATE") && input.len() > 2000 {
        return Ok("long".to_owned());
    }
    let reading = read_files(&[("main", input), ("other", other)], Role::Zone);
    let content = match reading.content {
        Ok(content) => content,
        Err(bad) => {
            let Some(first) = bad.problems.first() else {
                return Err("refused without a reason".to_owned());
            };
            let text = first.to_string();
            let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == ',');
            let words: Vec<&str> = text.split(' ').filter(is_word).take(7).collect();
            return Ok(words.join(" "));
        }
    };
    let printed = |content: &ZoneFile| {
        let apex: Name = "z.".parse().unwrap();
        let mut text = String::new();
        for node in content.nodes() {
            let owner = node.owner_wire(&apex);
            for record in node.records(&owner, 0) {
                text += &format!("{}\n", RecordText(record));
            }
        }
        text
    };
    let text = printed(&content);
    let again = format!("@ 60 IN SOA ns.z. h.z. 1 2 3 4 5\n{text}");
    match read_files(&[("main", again.as_bytes())], Role::Zone).content {
        Ok(second) if printed(&second) == text => Ok(format!("{} owners", content.nodes().len())),
        Ok(second) => Err(format!("{text}is read again as\n{}", printed(&second))),
        Err(bad) => Err(format!("{text}is not read again: {bad}")),
    }
}

#[test]
fn master_files_of_any_octets_are_refused_or_read_as_they_are_printed() {
    Fuzz::new(seeds(), WORDS).run("master file", target);
}

/// Plants a fault in the reader, which misreads an escape. Its printed form shows that.
#[test]
fn a_fault_planted_behind_a_master_file_is_found() {
    let planted = |input: &[u8]| {
        let outcome = target(input)?;
        let has = |part: &[u8]| input.windows(part.len()).any(|it| it == part);
        match outcome.ends_with("owners") && has(b"\\000") {
            true => Err("planted".to_owned()),
            false => Ok(outcome),
        }
    };
    Fuzz::new(seeds(), WORDS).finds("master file", planted);
}
