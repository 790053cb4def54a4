//! Reads single fields of objects.

use std::net::IpAddr;

use crate::facts::SliceForm;

/// A non-empty name in lower case.
pub(super) fn folded(text: Option<String>) -> Option<String> {
    let mut name = filled(text)?;
    name.make_ascii_lowercase();
    Some(name)
}

/// A non-empty text.
pub(super) fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// `addressType`.
pub(super) fn slice_form(text: Option<&str>) -> Result<SliceForm, String> {
    match text {
        Some("IPv4") => Ok(SliceForm::Ipv4),
        Some("IPv6") => Ok(SliceForm::Ipv6),
        Some("FQDN") => Ok(SliceForm::Fqdn),
        Some(other) => Err(format!("unknown addressType {other:?}")),
        None => Err("it has no addressType".to_owned()),
    }
}

pub(super) fn address(text: &str) -> Result<IpAddr, &'static str> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(mapped)) if mapped.to_ipv4_mapped().is_some() => {
            Err("an IPv4 address written as IPv6")
        }
        Ok(address) => Ok(address),
        Err(_) => Err("not an IP address"),
    }
}
