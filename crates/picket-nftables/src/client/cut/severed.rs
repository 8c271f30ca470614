//! Which TCP connections were cut.

use std::net::IpAddr;

use picket_linux::{Carried, Connection, Tuple};
use rustc_hash::FxHashMap;

/// How many connections are known at least, if there were as many.
const AT_LEAST: usize = 8192;

const TCP: u8 = 6;

/// The TCP connections in one network namespace that were cut last.
///
/// Where nothing restricts either end for a while, or others take the rules away, connection tracking takes up what was cut, and as
/// opened by whichever end sends first. By this it is known who has opened it.
#[derive(Debug)]
pub struct Severed {
    /// When there are as many in this it becomes `earlier`, whatever that was.
    most: usize,
    latest: FxHashMap<Ends, End>,
    earlier: FxHashMap<Ends, End>,
}

type End = (IpAddr, u16);

/// Both ends of a connection, the lower first, and its zone.
type Ends = ([End; 2], u16);

impl Default for Severed {
    fn default() -> Self {
        Self::up_to(AT_LEAST)
    }
}

impl Severed {
    /// Of which at least the last so many are known.
    pub fn up_to(most: usize) -> Self {
        Self {
            most,
            latest: FxHashMap::default(),
            earlier: FxHashMap::default(),
        }
    }

    /// Whether nothing was cut.
    pub fn is_empty(&self) -> bool {
        self.latest.is_empty() && self.earlier.is_empty()
    }

    /// A connection was cut.
    pub(super) fn note(&mut self, connection: &Connection) {
        // Once it is cut nobody translates what the end answers that was reached.
        let Some([reached, opener]) = ends(&connection.reply) else {
            return;
        };
        let key = key([reached, opener], connection.zone);
        let opener = self.known(connection, &key).unwrap_or(opener);
        if self.latest.len() >= self.most {
            self.earlier = std::mem::take(&mut self.latest);
        }
        self.latest.insert(key, opener);
    }

    /// Whether a connection is one that was cut, of which connection tracking says that the other end has opened it.
    pub(super) fn has_turned(&self, connection: &Connection) -> bool {
        ends(&connection.original).is_some_and(|[from, to]| {
            let opener = self.known(connection, &key([from, to], connection.zone));
            opener.is_some_and(|opener| opener != from)
        })
    }

    /// Who has opened a connection that was cut and is taken up.
    fn known(&self, connection: &Connection, key: &Ends) -> Option<End> {
        let opener = self.latest.get(key).or_else(|| self.earlier.get(key));
        opener.filter(|_| connection.is_taken_up).copied()
    }
}

/// Where the packets of one direction of a TCP connection come from and go to.
fn ends(tuple: &Tuple) -> Option<[End; 2]> {
    match tuple.carried {
        Carried::Ports { source, destination } if tuple.protocol == TCP => {
            Some([(tuple.source, source), (tuple.destination, destination)])
        }
        Carried::Ports { .. } | Carried::Icmp { .. } | Carried::Nothing => None,
    }
}

fn key(mut ends: [End; 2], zone: u16) -> Ends {
    ends.sort_unstable();
    (ends, zone)
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
    fn who_has_opened_what_was_cut_is_known_whoever_takes_it_up_and_however_often() {
        let mut severed = Severed::default();
        let begun = Connection {
            is_taken_up: false,
            ..connection(tuple(40_000, 80))
        };
        severed.note(&begun);
        let turned = connection(self::turned(begun.original));
        for _ in 0..2 {
            assert!(!severed.has_turned(&connection(begun.original)));
            assert!(severed.has_turned(&turned));
            // It is cut again.
            severed.note(&turned);
        }
        assert!(!severed.has_turned(&connection(self::turned(tuple(40_001, 80)))));
        let another = Connection {
            is_taken_up: false,
            ..turned
        };
        assert!(!severed.has_turned(&another), "connection tracking saw it begin");
        severed.note(&another);
        assert!(!severed.has_turned(&turned));
        let elsewhere = Connection { zone: 1, ..turned };
        severed.note(&begun);
        assert!(severed.has_turned(&turned) && !severed.has_turned(&elsewhere));
    }

    #[test]
    fn of_a_connection_through_a_service_the_end_counts_that_was_reached() {
        let mut severed = Severed::default();
        let answered = tuple(8080, 40_000);
        severed.note(&Connection {
            reply: answered,
            is_taken_up: false,
            ..connection(tuple(40_000, 80))
        });
        assert!(severed.has_turned(&connection(answered)));
        assert!(!severed.has_turned(&connection(turned(tuple(40_000, 80)))));
    }

    #[test]
    fn the_last_are_known_however_many_there_were() {
        let mut severed = Severed::up_to(100);
        assert!(severed.is_empty());
        for number in 0..550 {
            severed.note(&connection(tuple(number, 80)));
        }
        let is_known = |number: &u32| severed.has_turned(&connection(turned(tuple(*number, 80))));
        let known = (0..550).filter(is_known).count();
        assert!((100..=200).contains(&known), "{known}");
        assert!((450..550).all(|number| is_known(&number)));
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
