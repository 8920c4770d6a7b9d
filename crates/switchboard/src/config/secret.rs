//! A text that no log, no error and no printed configuration shows, and what they show of an address.

use std::borrow::Cow;
use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Box<str>);

impl Secret {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// An address without what is in it that may be a secret: the name and password before its host, and all behind its path.
pub(crate) fn public_address(address: &str) -> Cow<'_, str> {
    const HIDDEN: &str = "…";
    let (scheme, rest) = address.split_at(address.find("://").map_or(0, |at| at + "://".len()));
    let (open, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let (authority, path) = open.split_at(open.find('/').unwrap_or(open.len()));
    let host = authority.rsplit_once('@').map(|(_, host)| host);
    if host.is_none() && query.len() <= 1 {
        return address.into();
    }
    let user = if host.is_some() { format!("{HIDDEN}@") } else { String::new() };
    let query = if query.len() > 1 { format!("{}{HIDDEN}", &query[..1]) } else { query.into() };
    format!("{scheme}{user}{}{path}{query}", host.unwrap_or(authority)).into()
}

#[cfg(test)]
mod tests {
    use super::public_address;

    #[test]
    fn of_an_address_its_credentials_and_its_query_are_hidden() {
        for (address, public) in [
            ("https://a.example/mcp", "https://a.example/mcp"),
            ("http://[::1]:9/a@b", "http://[::1]:9/a@b"),
            ("https://a.example/mcp?", "https://a.example/mcp?"),
            ("https://a.example/mcp?token=x", "https://a.example/mcp?…"),
            ("https://a.example?token=x/y@z", "https://a.example?…"),
            ("https://a.example/mcp#x?y", "https://a.example/mcp#…"),
            ("https://user:p@ss@a.example/mcp?token=x", "https://…@a.example/mcp?…"),
            ("user:pass@a.example", "…@a.example"),
            ("a.example/mcp?token=x", "a.example/mcp?…"),
            ("", ""),
        ] {
            assert_eq!(public_address(address), public);
        }
    }
}
