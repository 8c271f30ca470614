//! Every transition, by a clock that a test moves.

use serde_json::json;

use super::*;

const LENGTH: Duration = Duration::from_secs(40);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An API server with one Lease, which takes writes of its present version only.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
}

impl Server {
    fn put(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(object.clone());
        object
    }

    /// What becomes of a write.
    fn write(&mut self, write: &Write) -> Option<Value> {
        let is_same = match &self.lease {
            None => version(&write.object).is_empty(),
            Some(lease) => version(lease) == version(&write.object),
        };
        is_same.then(|| self.put(write.object.clone()))
    }

    fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", |lease| Record::of(lease).holder())
    }
}

/// One that takes part looks after the Lease once, without losing a request: what it is in then, if it leads.
fn turn(elector: &mut Elector, server: &mut Server, now: Duration) -> Option<Term> {
    if let Some(write) = elector.renewal(now, "t")
        && let Some(object) = server.write(&write)
    {
        return Some(elector.written(now, &write, object));
    }
    match elector.attempt(now, server.lease.as_ref(), "t") {
        Attempt::Wait(_) => None,
        Attempt::Create(write) | Attempt::Replace(write) => {
            let object = server.write(&write)?;
            Some(elector.written(now, &write, object))
        }
    }
}

fn two() -> (Elector, Elector, Server) {
    let [a, b] = ["a", "b"].map(|name| Elector::new(name, LENGTH));
    (a, b, Server::default())
}

#[test]
fn the_first_creates_the_lease_and_another_waits() {
    let (mut a, mut b, mut server) = two();
    let term = turn(&mut a, &mut server, seconds(100)).unwrap();
    assert_eq!((term.number, term.begins), (1, Some(Beginning::Taken)));
    // It counts a hundredth less than others.
    assert_eq!(term.until, seconds(140) - Duration::from_millis(400));
    assert_eq!(server.holder(), "a");
    assert_eq!(
        b.attempt(seconds(7), server.lease.as_ref(), "t"),
        Attempt::Wait(LENGTH)
    );
}

#[test]
fn who_leads_renews_and_its_term_goes_on() {
    let (mut a, _, mut server) = two();
    turn(&mut a, &mut server, seconds(0));
    for now in [10, 20, 59] {
        let term = turn(&mut a, &mut server, seconds(now)).unwrap();
        assert_eq!((term.number, term.begins), (1, None), "{now}");
        assert!(term.until > seconds(now) + LENGTH - seconds(1));
    }
}

#[test]
fn who_waits_counts_from_when_it_saw_the_last_change_by_its_own_clock() {
    let (mut a, mut b, mut server) = two();
    turn(&mut a, &mut server, seconds(1_000_000));
    // The clocks have nothing in common.
    assert_eq!(turn(&mut b, &mut server, seconds(5)), None);
    turn(&mut a, &mut server, seconds(1_000_010));
    assert_eq!(turn(&mut b, &mut server, seconds(30)), None);
    for (now, left) in [(31, 39), (69, 1)] {
        let attempt = b.attempt(seconds(now), server.lease.as_ref(), "t");
        assert_eq!(attempt, Attempt::Wait(seconds(left)));
    }
    let term = turn(&mut b, &mut server, seconds(70)).unwrap();
    assert_eq!((term.number, term.begins), (1, Some(Beginning::Taken)));
    assert_eq!(server.lease.as_ref().unwrap()["spec"]["leaseTransitions"], 1);
    // The one before learns it.
    assert_eq!(turn(&mut a, &mut server, seconds(1_000_080)), None);
    assert!(!a.holds(seconds(1_000_080)));
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once() {
    let (mut a, mut b, mut server) = two();
    turn(&mut a, &mut server, seconds(0));
    turn(&mut b, &mut server, seconds(0));
    let released = a.release("t").unwrap();
    assert!(!a.holds(seconds(0)));
    server.put(released);
    let term = turn(&mut b, &mut server, seconds(1)).unwrap();
    assert_eq!(term.begins, Some(Beginning::Handed));
    assert_eq!(a.release("t"), None);
}

#[test]
fn a_longer_lease_of_another_is_waited_for() {
    let (mut a, _, mut server) = two();
    turn(&mut a, &mut server, seconds(0));
    let mut short = Elector::new("b", seconds(5));
    assert_eq!(
        short.attempt(seconds(0), server.lease.as_ref(), "t"),
        Attempt::Wait(LENGTH)
    );
    // And one that says nothing for as long as one's own.
    server.lease.as_mut().unwrap()["spec"]["leaseDurationSeconds"] = Value::Null;
    assert_eq!(
        short.attempt(seconds(0), server.lease.as_ref(), "t"),
        Attempt::Wait(seconds(5))
    );
}

#[test]
fn who_could_not_renew_for_the_length_begins_anew() {
    let (mut a, _, mut server) = two();
    let term = turn(&mut a, &mut server, seconds(0)).unwrap();
    assert!(a.holds(term.until - Duration::from_millis(1)) && !a.holds(term.until));
    assert_eq!(a.renewal(term.until, "t"), None);
    let term = turn(&mut a, &mut server, seconds(45)).unwrap();
    assert_eq!((term.number, term.begins), (2, Some(Beginning::Taken)));
}

#[test]
fn a_write_of_which_nobody_knows_what_became_counts_for_nothing() {
    let (mut a, mut b, mut server) = two();
    let first = turn(&mut a, &mut server, seconds(0)).unwrap();
    // The server has taken it, and the answer is lost.
    let lost = a.renewal(seconds(10), "t").unwrap();
    server.write(&lost).unwrap();
    assert!(!a.holds(first.until));
    assert_eq!(turn(&mut b, &mut server, seconds(0)), None);
    // Then it finds that the Lease is another, and its own: the term goes on.
    let renewal = a.renewal(seconds(20), "t").unwrap();
    assert_eq!(server.write(&renewal), None);
    let term = turn(&mut a, &mut server, seconds(20)).unwrap();
    assert_eq!((term.number, term.begins), (1, None));
    // One that comes late has no effect once another has it.
    let late = a.renewal(seconds(30), "t").unwrap();
    turn(&mut b, &mut server, seconds(1));
    turn(&mut b, &mut server, seconds(41)).unwrap();
    assert_eq!(server.write(&late), None);
    assert_eq!(server.holder(), "b");
}

#[test]
fn who_took_it_without_knowing_begins_a_term_when_it_learns_of_it() {
    let (mut a, mut b, mut server) = two();
    turn(&mut a, &mut server, seconds(0));
    turn(&mut b, &mut server, seconds(0));
    let Attempt::Replace(lost) = b.attempt(seconds(40), server.lease.as_ref(), "t") else {
        panic!("it takes it");
    };
    server.write(&lost).unwrap();
    assert!(!b.holds(seconds(40)));
    let term = turn(&mut b, &mut server, seconds(50)).unwrap();
    assert_eq!((term.number, term.begins), (1, Some(Beginning::Taken)));
}

#[test]
fn of_two_that_take_it_at_once_one_has_it() {
    let (mut a, mut b, mut server) = two();
    let mut gone = Elector::new("c", LENGTH);
    turn(&mut gone, &mut server, seconds(0));
    let writes = [&mut a, &mut b].map(|elector| {
        elector.attempt(seconds(0), server.lease.as_ref(), "t");
        elector.attempt(seconds(40), server.lease.as_ref(), "t")
    });
    let taken = writes.map(|attempt| match attempt {
        Attempt::Replace(write) => server.write(&write).is_some(),
        other => panic!("{other:?}"),
    });
    assert_eq!(taken, [true, false]);
    assert_eq!(turn(&mut b, &mut server, seconds(41)), None);
}

#[test]
fn who_is_deprived_of_it_or_whose_lease_is_deleted_does_not_lead() {
    let (mut a, _, mut server) = two();
    turn(&mut a, &mut server, seconds(0));
    let mut other = server.lease.clone().unwrap();
    other["spec"]["holderIdentity"] = json!("admin");
    server.put(other);
    assert_eq!(turn(&mut a, &mut server, seconds(1)), None);
    assert!(!a.holds(seconds(1)));
    server.lease = None;
    // Somebody may not know yet that it is gone, and counts on it.
    assert_eq!(turn(&mut a, &mut server, seconds(2)), None);
    assert_eq!(turn(&mut a, &mut server, seconds(41)), None);
    let term = turn(&mut a, &mut server, seconds(42)).unwrap();
    assert_eq!((term.number, term.begins), (2, Some(Beginning::Taken)));
}

#[test]
fn who_leads_creates_a_lease_that_was_deleted_again() {
    let (mut a, mut b, mut server) = two();
    turn(&mut a, &mut server, seconds(0));
    assert_eq!(turn(&mut b, &mut server, seconds(1)), None);
    server.lease = None;
    assert_eq!(turn(&mut b, &mut server, seconds(9)), None);
    let term = turn(&mut a, &mut server, seconds(10)).unwrap();
    assert_eq!((term.number, term.begins), (2, Some(Beginning::Taken)));
    assert_eq!(turn(&mut b, &mut server, seconds(45)), None);
}

#[test]
fn what_others_have_put_into_a_lease_stays() {
    let (mut a, _, mut server) = two();
    turn(&mut a, &mut server, seconds(0));
    let mut labelled = server.lease.clone().unwrap();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    server.put(labelled);
    let term = turn(&mut a, &mut server, seconds(1)).unwrap();
    assert_eq!((term.number, term.begins), (1, None));
    assert_eq!(server.lease.unwrap()["metadata"]["labels"]["a"], "b");
}

/// Time passes, requests and answers are lost, processes stand still, and the Lease is deleted, once all have seen it: at no moment of true
/// time two hold it.
#[test]
fn never_two_at_a_time() {
    for seed in 0..200_u64 {
        let mut chance = crate::backoff::Jitter::of(&seed.to_string());
        let mut dice = |sides: u64| chance.roll(sides);
        let mut server = Server::default();
        let mut all: Vec<_> = ["a", "b", "c"].map(|name| Elector::new(name, LENGTH)).into();
        // The clock of each begins somewhere.
        let began = [0, 1_000_000, 77].map(seconds);
        let mut led = [0; 3];
        let mut now = Duration::ZERO;
        for step in 0..400 {
            if step % 100 == 99 {
                server.lease = None;
            }
            now += Duration::from_millis(dice(9000));
            let who = usize::try_from(dice(3)).unwrap();
            let clock = now + began[who];
            let elector = &mut all[who];
            let write = elector.renewal(clock, "t").or_else(|| {
                match elector.attempt(clock, server.lease.as_ref(), "t") {
                    Attempt::Wait(_) => None,
                    Attempt::Create(write) | Attempt::Replace(write) => Some(write),
                }
            });
            if let Some(write) = write {
                // It takes a while until the server has it, and until the answer is there.
                now += Duration::from_millis(dice(4000));
                let arrives = dice(5) != 0;
                let taken = arrives.then(|| server.write(&write)).flatten();
                now += Duration::from_millis(dice(4000));
                if let Some(object) = taken
                    && dice(5) != 0
                {
                    elector.written(clock, &write, object);
                } else if !arrives || server.holder() != elector.identity {
                    // It asks, as after a refusal.
                    elector.attempt(now + began[who], server.lease.as_ref(), "t");
                }
            }
            let holding: Vec<_> = (0..3).filter(|&one| all[one].holds(now + began[one])).collect();
            assert!(holding.len() <= 1, "seed {seed}: {holding:?} at {now:?}");
            holding.iter().for_each(|&one| led[one] += 1);
        }
        assert!(led.iter().sum::<u32>() > 20, "{led:?}");
    }
}
