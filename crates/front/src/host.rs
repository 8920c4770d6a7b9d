//! Which `Host` a request may name: parsed and compared as a whole, never by a prefix, so that `127.evil.example` and
//! `localhost.evil.example` are strangers. It keeps a web page whose name was bound to this address out.

use std::net::{IpAddr, Ipv6Addr};

/// The hosts that are served: loopback always, and those of the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    names: Vec<Box<str>>,
}

impl Hosts {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().map(|name| name.to_ascii_lowercase().into()).collect() }
    }

    /// Whether `authority`, the text of a `Host` header, names one of them; its port does not matter.
    pub(crate) fn has(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else {
            return false;
        };
        let is_loopback = match &host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name == "localhost",
        };
        let text = match host {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name,
        };
        is_loopback || self.names.iter().any(|name| **name == *text)
    }
}

enum Host {
    Address(IpAddr),
    Name(String),
}

fn host_of(authority: &str) -> Option<Host> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (Host::Address(address.parse::<Ipv6Addr>().ok()?.into()), port)
        }
        None => {
            let (name, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_plain) {
                return None;
            }
            (name.parse().map_or_else(|_| Host::Name(name.to_ascii_lowercase()), Host::Address), port)
        }
    };
    let has_port = |port: &str| port.parse::<u16>().is_ok() && port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(has_port)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::Hosts;

    #[test]
    fn only_whole_names_that_were_given_and_loopback_are_served() {
        let hosts = Hosts::new(["Box.Lan".to_owned(), "192.0.2.7".to_owned()]);
        for served in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:4180",
            "127.9.9.9",
            "[::1]:80",
            "[::1]",
            "box.lan",
            "BOX.lan:65535",
            "192.0.2.7:80",
        ] {
            assert!(hosts.has(served), "{served}");
        }
        for strange in [
            "",
            ":80",
            "localhost.",
            "localhost.evil.example",
            "evil-localhost",
            "127.evil.example",
            "127.0.0.1.evil.example",
            "127.1",
            "0x7f.0.0.1",
            "2130706433",
            "[::1",
            "::1",
            "[::1]evil",
            "[::1]:",
            "[127.0.0.1]",
            "localhost:",
            "localhost:x",
            "localhost:+1",
            "localhost:65536",
            "localhost:1:2",
            "user@localhost",
            "localhost/",
            "local host",
            "192.0.2.70",
            "box.lan.evil.example",
            "0.0.0.0",
            "[::]",
            "localhost\u{200b}",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(!hosts.has(strange), "{strange}");
        }
    }
}
