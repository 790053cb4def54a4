//! A case: a server block, what stands behind it, and what is asked.

/// One case. `PORT0` (the port of its blocks), `PORT1` to `PORT3` (free ones), `UPn` (127.0.0.1:port), `UPORTn` (its port)
/// and `DIR` in its texts are filled in for each server.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    /// The zones of the block.
    pub zones: &'static str,
    /// The lines of the block; `bind` is added, and `errors` where it is not there. They may end the block and begin others.
    pub lines: &'static str,
    /// A mode for each upstream; see `support::upstream`.
    pub upstreams: &'static str,
    /// Files of its folder, `name` and text.
    pub files: &'static [(&'static str, &'static str)],
    /// The steps, one a line:
    ///
    /// - `NAME TYPE [@N] [+tcp] [+do] [+e=SIZE] [+opt=CODE:HEX] [+cd] [+ad] [+nord] [+from=IP] [CH]` asks (at `PORTn`); the
    ///   replies are to be equal.
    ///   Behind ` != ID: TEXT` stands ours where the difference ID is meant.
    /// - `times N NAME TYPE…` asks N times, and the sets of replies are to be equal.
    /// - `burst N NAME TYPE…` asks N times at once, and the sorted replies are to be equal.
    /// - `until NAME TYPE…` asks until there are answers.
    /// - `answers NAME TYPE…` asks, and code, flags and answers are to be equal, whatever is beside them.
    /// - `axfr ZONE` transfers a zone; its addresses are to be equal, but for those of name servers.
    /// - `logged N TEXT`: waits for N lines that contain the text in the log; the sorted lines are to be equal.
    /// - `metrics N WORD…`: metrics at `PORTn` that begin with one of the words and name a port of the case are to be equal.
    /// - `wait MS`; `up N MODE` changes an upstream, `open N` wakes a dead one.
    /// - `seen N`: how often upstream N was asked by UDP and TCP, equal for both.
    /// - `checked N`: whether upstream N was asked for its health, equal for both.
    /// - `write FILE TEXT` replaces a file; `\n` in the text ends a line.
    pub script: &'static str,
}

/// A case for all names with one upstream that is well.
pub const fn case(name: &'static str, lines: &'static str, script: &'static str) -> Case {
    with(name, "ok", lines, script)
}

/// A case for all names with these upstreams.
pub const fn with(
    name: &'static str,
    upstreams: &'static str,
    lines: &'static str,
    script: &'static str,
) -> Case {
    Case {
        name,
        zones: ".",
        lines,
        upstreams,
        files: &[],
        script,
    }
}

impl Case {
    /// With other zones.
    pub const fn zones(self, zones: &'static str) -> Self {
        Self { zones, ..self }
    }

    /// With files.
    pub const fn files(self, files: &'static [(&'static str, &'static str)]) -> Self {
        Self { files, ..self }
    }
}
