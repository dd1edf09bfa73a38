//! Checks the addresses that requests go to.
//!
//! Refused unless the operator permits them: all addresses that the IANA special-purpose registries
//! (RFC 6890) do not call globally reachable, multicast, and the addresses of cloud metadata
//! services. An IPv6 address that embeds an IPv4 address (mapped, NAT64, 6to4) is judged by that.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An exception by the operator: requests may go there although the address is not public.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Permission {
    /// The addresses that share their first bits with this one.
    Network {
        /// An address of the network.
        address: IpAddr,
        /// How many leading bits count.
        prefix: u8,
    },
    /// Every address that this name resolves to.
    Host(String),
}

/// The reason why a text is not a [`Permission`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct PermissionError {
    /// The fault in the text.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

/// The forms of a permission.
const FORMS: &str = "write an address (127.0.0.1, ::1), a network (10.0.0.0/8), localhost, or a name (db.internal)";

impl FromStr for Permission {
    type Err = PermissionError;

    /// Parses `10.0.0.0/8`, `::1`, `localhost`, or `db.internal`. A single word is taken for a
    /// mistake, unless it ends in a dot, as absolute names do: `db.`.
    fn from_str(text: &str) -> Result<Self, PermissionError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let Ok(address) = address.parse::<IpAddr>() else { return host(text) };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), str::parse).ok().filter(|prefix| *prefix <= bits);
        let refusal = || PermissionError {
            message: format!("the prefix must be 0 to {bits}"),
            hint: format!("write {address} for the one address, or a network such as 10.0.0.0/8"),
        };
        Ok(Self::Network { address, prefix: prefix.ok_or_else(refusal)? })
    }
}

/// Parses the name of a host; the hint of a failure says what was probably meant.
fn host(text: &str) -> Result<Permission, PermissionError> {
    let refuse = |message: &str, hint: String| Err(PermissionError { message: message.to_owned(), hint });
    if let Ok(url) = url::Url::parse(text)
        && let Some(host) = url.host().filter(|_| text.contains("://"))
    {
        let host = host.to_string();
        return refuse("this is a URL", format!("write its host alone: {}", host.trim_matches(['[', ']'])));
    }
    if let Some((host, port)) = text.rsplit_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        let host = host.trim_matches(['[', ']']);
        return refuse("a permission has no port: it applies to all ports", format!("write {host}"));
    }
    let name = match url::Host::parse(text) {
        Ok(url::Host::Domain(name)) => name,
        Ok(odd) => {
            let plain = odd.to_string();
            let hint = format!("write {}", plain.trim_matches(['[', ']']));
            return refuse("this is an odd way to write an address", hint);
        }
        Err(_) if text.contains('/') => return refuse("only an address may have a prefix", FORMS.to_owned()),
        Err(_) => return refuse("this is neither an address nor a name", FORMS.to_owned()),
    };
    if name.contains('*') {
        return refuse("a permission is not a pattern", "name each host, or the network: 10.0.0.0/8".to_owned());
    }
    match name.strip_suffix('.') {
        Some(absolute) if !absolute.is_empty() => Ok(Permission::Host(absolute.to_owned())),
        None if name.contains('.') || name == "localhost" => Ok(Permission::Host(name)),
        _ => {
            let hint = format!("{FORMS}; a name that is a single word ends in a dot: {name}.");
            refuse("this is neither an address nor the full name of a host", hint)
        }
    }
}

impl fmt::Display for Permission {
    /// Writes the form that [`FromStr`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { address, prefix } if *prefix == if address.is_ipv4() { 32 } else { 128 } => {
                write!(f, "{address}")
            }
            Self::Network { address, prefix } => write!(f, "{address}/{prefix}"),
            Self::Host(name) if name.contains('.') || name == "localhost" => f.write_str(name),
            Self::Host(name) => write!(f, "{name}."),
        }
    }
}

impl Permission {
    /// Returns whether this permission permits every address that the other one permits.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Network { prefix, .. }, Self::Network { address, prefix: narrower }) => {
                prefix <= narrower && self.covers("", *address)
            }
            (Self::Host(name), Self::Host(other)) => name == other,
            _ => false,
        }
    }

    fn covers(&self, host: &str, ip: IpAddr) -> bool {
        match self {
            Self::Host(name) => name == host,
            Self::Network { address, prefix } => match (address, ip) {
                (IpAddr::V4(net), IpAddr::V4(ip)) => shares(net.to_bits().into(), ip.to_bits().into(), 32, *prefix),
                (IpAddr::V6(net), IpAddr::V6(ip)) => shares(net.to_bits(), ip.to_bits(), 128, *prefix),
                _ => false,
            },
        }
    }
}

/// Returns whether two addresses of `bits` bits share the first `prefix` ones.
fn shares(left: u128, right: u128, bits: u8, prefix: u8) -> bool {
    let unlike = left ^ right;
    unlike.checked_shr(u32::from(bits - prefix)).unwrap_or(0) == 0
}

/// An address that no permission covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    pub(super) host: String,
    pub(super) why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the address: a guest must not learn what a name resolves to inside the network.
        write!(f, "`{}` is at {}", crate::dispatch::problems::bounded(&self.host), self.why)
    }
}

impl std::error::Error for Refused {}

/// Checks an address before a connection to it.
pub(super) fn check(permissions: &[Permission], host: &str, ip: IpAddr) -> Result<(), Refused> {
    let embedded = embedded_v4(ip);
    let Some(why) = embedded.map_or_else(|| reserved(ip), |v4| reserved(v4.into())) else { return Ok(()) };
    let is_permitted = |permission: &Permission| {
        permission.covers(host, ip) || embedded.is_some_and(|v4| permission.covers(host, v4.into()))
    };
    if permissions.iter().any(is_permitted) { Ok(()) } else { Err(Refused { host: host.to_owned(), why }) }
}

/// Returns the IPv4 address that an IPv6 address embeds.
fn embedded_v4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let bits = ip.to_bits();
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(Ipv4Addr::from_bits(bits as u32)),
        [0x2002, ..] => Some(Ipv4Addr::from_bits((bits >> 80) as u32)),
        _ => None,
    }
}

/// Returns why an address is not public; `None` if it is.
fn reserved(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => reserved_v4(ip),
        IpAddr::V6(ip) => reserved_v6(ip),
    }
}

fn reserved_v4(ip: Ipv4Addr) -> Option<&'static str> {
    Some(match ip.octets() {
        [0, ..] => "an unspecified address",
        [127, ..] => "a loopback address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "a shared address (carrier-grade NAT)",
        [169, 254, ..] => "a link-local address",
        // The host agent of a large cloud, on a public address.
        [168, 63, 129, 16] => "a metadata address",
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => "a special-purpose address",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "a documentation address",
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "a reserved address",
        _ => return None,
    })
}

fn reserved_v6(ip: Ipv6Addr) -> Option<&'static str> {
    Some(match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an unspecified address",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfec0..=0xfeff, ..] => "a site-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        // Among these: Teredo, benchmarking, ORCHID.
        [0x2001, 0x0000..=0x01ff, ..] => "a special-purpose address",
        [0x2001, 0x0db8, ..] | [0x3fff, 0x0000..=0x0fff, ..] => "a documentation address",
        [0x2000..=0x3fff, ..] => return None,
        _ => "a reserved address",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_public(text: &str) -> bool {
        check(&[], "host", text.parse().unwrap()).is_ok()
    }

    #[test]
    fn public_addresses_pass() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "169.253.255.255",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2606:4700::1111",
            "2a00:1450:4001::8a",
            "2001:4860:4860::8888",
            "2001:200::1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(is_public(ip), "{ip}");
        }
    }

    #[test]
    fn every_other_kind_is_refused() {
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.255.255.255",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "169.254.169.254",
            "168.63.129.16",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "5f00::1",
            "100::1",
            "::7f00:1",
            "64:ff9b:1::1",
            // Private ones in disguise.
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.1.2.3",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:c0a8:101::1",
        ] {
            assert!(!is_public(ip), "{ip}");
        }
    }

    #[test]
    fn the_operator_may_permit_networks_and_names() {
        let permissions: Vec<Permission> =
            ["10.1.0.0/16", "::1", "db.internal", "127.0.0.1"].iter().map(|text| text.parse().unwrap()).collect();
        let allows = |host: &str, ip: &str| check(&permissions, host, ip.parse().unwrap()).is_ok();
        assert!(allows("a", "10.1.255.1") && !allows("a", "10.2.0.1") && !allows("a", "10.0.0.1"));
        assert!(allows("a", "::1") && !allows("a", "::2"));
        assert!(allows("a", "127.0.0.1") && !allows("a", "127.0.0.2"));
        assert!(allows("a", "::ffff:10.1.0.1"), "a permitted address in another coat");
        assert!(allows("db.internal", "192.168.0.1") && !allows("x.db.internal", "192.168.0.1"));
    }

    #[test]
    fn what_is_no_permission_is_refused_with_the_way_out() {
        for (text, hint) in [
            ("10.0.0.0/33", "write 10.0.0.0"),
            ("::1/129", "write ::1"),
            ("10.0.0.0/x", "write 10.0.0.0"),
            ("10.0.0.0/-1", "write 10.0.0.0"),
            ("a b", "db.internal"),
            ("", "db.internal"),
            (".", "db.internal"),
            ("0x7f.1", "write 127.0.0.1"),
            ("[::1]", "write ::1"),
            ("10.1", "write 10.0.0.1"),
            ("300.1.1.1", "db.internal"),
            ("nonsense", "nonsense."),
            ("localhost:8080", "write localhost"),
            ("127.0.0.1:80", "write 127.0.0.1"),
            ("[::1]:80", "write ::1"),
            ("localhost/8", "127.0.0.1"),
            ("http://localhost:3000/x", "write its host alone: localhost"),
            ("http://[::1]/", "write its host alone: ::1"),
            ("*.internal", "10.0.0.0/8"),
        ] {
            let refused = text.parse::<Permission>().unwrap_err();
            assert!(refused.hint.contains(hint), "{text}: {refused:?}");
        }
    }

    #[test]
    fn permissions_as_operators_write_them() {
        let name = |name: &str| Ok(Permission::Host(name.to_owned()));
        assert_eq!("localhost".parse(), name("localhost"));
        assert_eq!("LocalHost".parse(), name("localhost"));
        assert_eq!("db.".parse(), name("db"));
        assert_eq!("db.internal.".parse(), name("db.internal"));
        assert_eq!("0.0.0.0/0".parse(), Ok(Permission::Network { address: Ipv4Addr::UNSPECIFIED.into(), prefix: 0 }));
        assert_eq!("DB.Internal".parse(), Ok(Permission::Host("db.internal".into())));
        assert!(check(&["0.0.0.0/0".parse().unwrap()], "a", Ipv4Addr::LOCALHOST.into()).is_ok());
    }

    proptest! {
        #[test]
        fn an_address_is_judged_alike_in_every_coat(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let nat64 = Ipv6Addr::from_bits((0x64_ff9b << 96) | u128::from(bits));
            let sixtofour = Ipv6Addr::from_bits((0x2002 << 112) | (u128::from(bits) << 80) | 1);
            let plain = check(&[], "h", v4.into()).is_ok();
            for coat in [v4.to_ipv6_mapped(), nat64, sixtofour] {
                prop_assert_eq!(check(&[], "h", coat.into()).is_ok(), plain);
            }
        }

        #[test]
        fn what_the_standard_library_calls_special_is_refused(bits: u32, wide: u128) {
            let v4 = Ipv4Addr::from_bits(bits);
            let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_broadcast()
                || v4.is_documentation() || v4.is_multicast() || v4.is_unspecified();
            prop_assert!(!special || check(&[], "h", v4.into()).is_err());
            let v6 = Ipv6Addr::from_bits(wide);
            let special = v6.is_loopback() || v6.is_multicast() || v6.is_unspecified() || v6.is_unique_local()
                || v6.is_unicast_link_local();
            prop_assert!(!special || check(&[], "h", v6.into()).is_err());
        }
    }
}
