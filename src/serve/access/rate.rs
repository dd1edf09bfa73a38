//! Rates: how many requests a token may send, and how many unknown tokens an address.

use super::Caller;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

/// Requests of a token in a second.
pub const REQUESTS_PER_SECOND: u32 = 10_000;

/// Unknown tokens that an address may send at once, and in each second after that.
pub const UNKNOWN_TOKENS: (u32, u32) = (20, 1);

/// Tokens and addresses that are remembered, of each kind. Arbitrary: some tens of bytes each.
const REMEMBERED_MAX: usize = 10_000;

/// Whom a request came from, as the connection gives it. Headers are not asked: anybody can write
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub IpAddr);

/// Turns that come back with time, for each key.
struct Rates<K> {
    /// Turns that a key has at most.
    most: f64,
    /// Turns that come back in a second.
    per_second: f64,
    /// What each key had left, and when. A key that is not in it has all.
    left: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Hash + Eq> Rates<K> {
    fn new((most, per_second): (u32, u32)) -> Self {
        Self { most: most.into(), per_second: per_second.into(), left: Mutex::default() }
    }

    /// Takes a turn.
    ///
    /// # Errors
    /// There is none; in so many seconds, rounded up, there is one.
    fn take<Q>(&self, key: &Q, now: Instant) -> Result<(), u64>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let back = |(left, at): (f64, Instant)| {
            (left + now.saturating_duration_since(at).as_secs_f64() * self.per_second).min(self.most)
        };
        let mut all = self.left.lock();
        let left = all.get(key).map_or(self.most, |had| back(*had));
        if left < 1.0 {
            return Err(((1.0 - left) / self.per_second).ceil() as u64);
        }
        if let Some(had) = all.get_mut(key) {
            *had = (left - 1.0, now);
            return Ok(());
        }
        if all.len() >= REMEMBERED_MAX {
            all.retain(|_, had| back(*had) < self.most);
            if all.len() >= REMEMBERED_MAX {
                all.clear();
            }
        }
        all.insert(key.to_owned(), (left - 1.0, now));
        Ok(())
    }
}

/// The rates of a service.
pub(in crate::serve) struct Limiter {
    tokens: Rates<String>,
    addresses: Rates<Option<IpAddr>>,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { tokens: Rates::new((REQUESTS_PER_SECOND, REQUESTS_PER_SECOND)), addresses: Rates::new(UNKNOWN_TOKENS) }
    }
}

impl Limiter {
    /// Takes a turn of a caller's token.
    ///
    /// # Errors
    /// It has none; in so many seconds it has one.
    pub(in crate::serve) fn request(&self, caller: &Caller) -> Result<(), u64> {
        self.tokens.take(caller.token(), Instant::now())
    }

    /// Notes that an unknown token came from an address. A valid token is let in all the same: a
    /// stranger behind the same proxy must not lock others out.
    ///
    /// # Errors
    /// Too many came from there; in so many seconds the next one is looked at as usual.
    pub(in crate::serve) fn unknown_token(&self, peer: Option<Peer>) -> Result<(), u64> {
        self.addresses.take(&peer.map(|Peer(address)| network(address)), Instant::now())
    }
}

/// The address, or the /64 of one of IPv6: whoever has one has all of it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn turns_come_back_with_time_and_each_key_has_its_own() {
        let rates: Rates<String> = Rates::new((3, 2));
        let begins = Instant::now();
        let take = |key: &str, millis| rates.take(key, begins + Duration::from_millis(millis));
        assert_eq!([0; 3].map(|at| take("a", at)), [Ok(()); 3]);
        assert_eq!(take("a", 0), Err(1));
        assert_eq!(take("b", 0), Ok(()));
        assert_eq!((take("a", 500), take("a", 501)), (Ok(()), Err(1)));
        // Never more than the most.
        assert_eq!([60_000; 4].map(|at| take("a", at)), [Ok(()), Ok(()), Ok(()), Err(1)]);
    }

    #[test]
    fn many_keys_are_forgotten_and_not_kept() {
        let rates: Rates<String> = Rates::new((2, 1));
        let now = Instant::now();
        for key in 0..3 * REMEMBERED_MAX {
            rates.take(&*key.to_string(), now).unwrap();
        }
        assert!(rates.left.lock().len() <= REMEMBERED_MAX);
    }

    #[test]
    fn an_address_of_ipv6_stands_for_its_network() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
