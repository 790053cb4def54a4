//! Writes what is wrong with a file of an export or of a state folder.

use std::io::{self, Write};

use history::{Output, SCHEMA};
use serde_json::json;
use zone::journal::Damage;

/// Writes what is wrong with a file that is no history. A missing file has no signature.
pub(crate) fn write_faults(
    file: &str,
    signature: Option<&str>,
    faults: &[(Damage, String)],
    output: Output,
    out: &mut dyn Write,
) -> io::Result<()> {
    if output == Output::Text {
        for (damage, what) in faults {
            writeln!(out, "{file}: BROKEN, {damage}: {what}")?;
        }
        return Ok(());
    }
    let fault =
        |(damage, what): &(Damage, String)| json!({ "damage": damage.as_str(), "what": what });
    let faults: Vec<_> = faults.iter().map(fault).collect();
    let mut line =
        json!({ "schema": SCHEMA, "file": file, "good": faults.is_empty(), "faults": faults });
    if let Some(signature) = signature {
        line["signature"] = signature.into();
    }
    writeln!(out, "{line}")
}
