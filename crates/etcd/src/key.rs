//! Keys and names: `/skydns/org/example/a` is `a.example.org.`.

use dns::Name;

/// The place of a zone's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    zone: Name,
    /// The key of the zone itself, with a slash at its end.
    prefix: String,
}

impl Layout {
    /// The keys of a zone below `path`, such as `/skydns`. Slashes around the path do not count.
    #[must_use]
    pub fn new(path: &str, zone: &Name) -> Self {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let mut prefix = String::new();
        for part in parts {
            prefix.push('/');
            prefix.push_str(part);
        }
        let zone = zone.to_lower();
        let labels: Vec<&[u8]> = zone.labels().collect();
        for label in labels.iter().rev() {
            prefix.push('/');
            prefix.push_str(&String::from_utf8_lossy(label));
        }
        prefix.push('/');
        Self { zone, prefix }
    }

    /// The zone, in lower case.
    #[must_use]
    pub const fn zone(&self) -> &Name {
        &self.zone
    }

    /// The beginning of the zone's keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of a key.
    ///
    /// # Errors
    /// Why no query can be for it.
    pub fn name(&self, key: &str) -> Result<Name, String> {
        let below = key.strip_prefix(&self.prefix);
        let below = below.ok_or_else(|| format!("the key is not below {}", self.prefix))?;
        let mut name = self.zone.clone();
        for label in below.split('/') {
            if label == "*" {
                return Err("a key cannot be a wildcard".to_owned());
            }
            if label.bytes().any(|octet| octet.is_ascii_uppercase()) {
                return Err("write the key in lower case: names are looked up so".to_owned());
            }
            name = name.child(label).map_err(|error| error.to_string())?;
        }
        Ok(name)
    }

    /// The key of a name in the zone.
    #[must_use]
    pub fn key(&self, name: &Name) -> String {
        let count = name.label_count() - self.zone.label_count();
        let labels: Vec<&[u8]> = name.labels().take(count).collect();
        let mut key = self.prefix.clone();
        for (index, label) in labels.iter().rev().enumerate() {
            if index > 0 {
                key.push('/');
            }
            key.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_name_from_its_end() {
        for (path, zone, name, key) in [
            (
                "skydns",
                "example.org",
                "a.example.org",
                "/skydns/org/example/a",
            ),
            (
                "/skydns/",
                "Example.ORG",
                "b.a.example.org",
                "/skydns/org/example/a/b",
            ),
            ("//x/y", ".", "org", "/x/y/org"),
            (
                "",
                "10.in-addr.arpa",
                "7.0.10.in-addr.arpa",
                "/arpa/in-addr/10/0/7",
            ),
        ] {
            let layout = Layout::new(path, &zone.parse().unwrap());
            let name: Name = name.parse().unwrap();
            assert_eq!(layout.key(&name), key);
            assert_eq!(layout.name(key), Ok(name));
        }
    }

    #[test]
    fn a_key_that_no_query_is_for_says_why() {
        let layout = Layout::new("skydns", &"example.org".parse().unwrap());
        let why = |key: &str| layout.name(key).unwrap_err();
        assert!(why("/skydns/org/example/A").contains("lower case"));
        assert!(why("/skydns/org/example/*/a").contains("wildcard"));
        assert!(why("/skydns/org/example/a.b").contains("dot"));
        assert!(why("/skydns/org/example/a/").contains("empty"));
        assert!(why("/skydns/org/example/").contains("empty"));
        assert!(why("/skydns/net/a").contains("not below"));
    }
}
