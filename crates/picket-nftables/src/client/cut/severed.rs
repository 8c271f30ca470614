//! Which TCP connections were cut.

use std::net::IpAddr;

use picket_linux::{Carried, Connection, Tuple};
use rustc_hash::FxHashSet;

/// How many connections are known at least, if there were as many.
const AT_LEAST: usize = 8192;

const TCP: u8 = 6;

/// The TCP connections in one network namespace that were cut last.
///
/// Where nothing restricts either end for a while, or others take the rules away, connection tracking takes up what was cut, and as
/// opened by whichever end sends first. By this it is told from what that end has opened.
#[derive(Debug, Default)]
pub struct Severed {
    /// When this is full it becomes `earlier`, whatever that was.
    latest: FxHashSet<Ends>,
    earlier: FxHashSet<Ends>,
}

/// Both ends of a connection, the lower first: nothing tells who has opened it.
type Ends = [(IpAddr, u16); 2];

impl Severed {
    /// Whether nothing was cut.
    pub fn is_empty(&self) -> bool {
        self.latest.is_empty() && self.earlier.is_empty()
    }

    /// A connection was cut.
    pub(super) fn note(&mut self, connection: &Connection) {
        // Once it is cut nobody translates what the end answers that was reached.
        let Some(ends) = ends(&connection.reply) else {
            return;
        };
        if self.latest.len() >= AT_LEAST {
            self.earlier = std::mem::take(&mut self.latest);
        }
        self.latest.insert(ends);
    }

    /// Whether a connection is what connection tracking has taken up of one that was cut.
    pub(super) fn has(&self, connection: &Connection) -> bool {
        let is_known = |ends| self.latest.contains(&ends) || self.earlier.contains(&ends);
        connection.is_taken_up && ends(&connection.original).is_some_and(is_known)
    }
}

fn ends(tuple: &Tuple) -> Option<Ends> {
    match tuple.carried {
        Carried::Ports { source, destination } if tuple.protocol == TCP => {
            let mut ends = [(tuple.source, source), (tuple.destination, destination)];
            ends.sort_unstable();
            Some(ends)
        }
        Carried::Ports { .. } | Carried::Icmp { .. } | Carried::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(from: u32, to: u32) -> Tuple {
        let port = |number| u16::try_from(number % 60_000).unwrap();
        Tuple {
            source: IpAddr::from([10, 0, 0, 1]),
            destination: IpAddr::from([10, 0, 0, 2]),
            protocol: TCP,
            carried: Carried::Ports {
                source: port(from),
                destination: port(to),
            },
            zone: 0,
        }
    }

    fn turned(tuple: Tuple) -> Tuple {
        let Carried::Ports { source, destination } = tuple.carried else {
            panic!("{tuple}")
        };
        Tuple {
            source: tuple.destination,
            destination: tuple.source,
            carried: Carried::Ports {
                source: destination,
                destination: source,
            },
            ..tuple
        }
    }

    fn connection(original: Tuple) -> Connection {
        Connection {
            original,
            reply: turned(original),
            zone: 0,
            id: 1,
            status: 0,
            master: None,
            is_taken_up: true,
        }
    }

    #[test]
    fn what_was_cut_is_known_from_either_end_and_only_when_it_is_taken_up() {
        let mut severed = Severed::default();
        let cut = connection(tuple(40_000, 80));
        severed.note(&cut);
        assert!(severed.has(&cut) && severed.has(&connection(turned(cut.original))));
        assert!(!severed.has(&connection(tuple(40_001, 80))));
        let begun = Connection {
            is_taken_up: false,
            ..cut
        };
        assert!(!severed.has(&begun), "it has begun, so that it is another");
    }

    #[test]
    fn of_a_connection_through_a_service_the_end_counts_that_was_reached() {
        let mut severed = Severed::default();
        let answered = tuple(8080, 40_000);
        severed.note(&Connection {
            reply: answered,
            ..connection(tuple(40_000, 80))
        });
        assert!(severed.has(&connection(answered)));
        assert!(!severed.has(&connection(tuple(40_000, 80))));
    }

    #[test]
    fn the_last_are_known_however_many_there_were() {
        let mut severed = Severed::default();
        assert!(severed.is_empty());
        let all = u32::try_from(5 * AT_LEAST).unwrap();
        for number in 0..all {
            severed.note(&connection(tuple(number, 80)));
        }
        let is_known = |number: &u32| severed.has(&connection(tuple(*number, 80)));
        let known = (0..all).filter(is_known).count();
        assert!((AT_LEAST..=2 * AT_LEAST).contains(&known), "{known}");
        assert!((all - u32::try_from(AT_LEAST).unwrap()..all).all(|number| is_known(&number)));
    }

    #[test]
    fn of_other_protocols_nothing_is_kept() {
        let mut severed = Severed::default();
        let original = Tuple {
            protocol: 17,
            ..tuple(1, 2)
        };
        severed.note(&connection(original));
        assert!(severed.is_empty());
    }
}
