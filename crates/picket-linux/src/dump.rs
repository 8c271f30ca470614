//! Lists of what nf_tables has.

use rustix::io::Errno;

use crate::batch::{family_header, frame, message_type};
use crate::message::{HEADER, Message, NLM_F_REQUEST, u16_at};
use crate::nfnetlink::{NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, Nfnetlink, refused};
use crate::reply::{Attributes, Reply};
use crate::request::NLM_F_DUMP;
use crate::{Error, Result};

const NFT_MSG_GETGEN: u8 = 16;
const NFTA_GEN_ID: u16 = 1;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NFT_MSG_NEWSETELEM: u8 = 12;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
/// `NFTA_SET_ELEM_TIMEOUT`, `_EXPIRATION`, `_EXPR` and `_EXPRESSIONS`.
const NFTA_SET_ELEM_STATE: [u16; 4] = [4, 5, 7, 11];

/// How often a reading is begun again when what it shows changes meanwhile.
const READINGS: usize = 100;

/// Asks for lists, as a part of one reading.
#[derive(Debug)]
pub struct Lister<'a> {
    netlink: &'a mut Nfnetlink,
    is_of_one_moment: bool,
}

impl Lister<'_> {
    /// Every object that the kernel lists for a kind of request (`NFT_MSG_GET*`) with these attributes and that `keep` says is to
    /// be kept. The others are gone before the next one comes, so that it takes no memory to be told of many.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn list(
        &mut self,
        kind: u8,
        family: u8,
        attributes: &[(u16, &[u8])],
        action: &str,
        keep: impl FnMut(&Reply) -> bool,
    ) -> Result<Vec<Reply>> {
        let replies = self
            .netlink
            .replies(kind, NLM_F_DUMP, family, attributes, action, keep)?;
        self.is_of_one_moment &= replies.are_of_one_moment;
        Ok(replies.objects)
    }

    /// The one object that the kernel gives for a kind of request (`NFT_MSG_GET*`) with these attributes, if there is one.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn get(
        &mut self,
        kind: u8,
        family: u8,
        attributes: &[(u16, &[u8])],
        action: &str,
    ) -> Result<Option<Reply>> {
        self.netlink.get(kind, family, attributes, action)
    }
}

impl Nfnetlink {
    /// The generation of the ruleset of this namespace. Every transaction of anybody makes the next one.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn generation(&mut self) -> Result<u32> {
        let action = "read the generation of the ruleset";
        let replies = self.replies(NFT_MSG_GETGEN, 0, 0, &[], action, |_| true)?;
        let number = replies
            .objects
            .first()
            .and_then(|reply| reply.attributes().find(NFTA_GEN_ID))
            .and_then(|bytes| bytes.try_into().ok());
        number
            .map(u32::from_be_bytes)
            .ok_or_else(|| refused(action, Errno::PROTO))
    }

    /// The one object that the kernel gives for a kind of request (`NFT_MSG_GET*`) with these attributes, if there is one.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn get(
        &mut self,
        kind: u8,
        family: u8,
        attributes: &[(u16, &[u8])],
        action: &str,
    ) -> Result<Option<Reply>> {
        match self.replies(kind, 0, family, attributes, action, |_| true) {
            Ok(mut replies) => Ok(replies.objects.pop()),
            Err(Error::Netlink { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every object that the kernel lists for a kind of request (`NFT_MSG_GET*`) with these attributes, as of one moment.
    ///
    /// # Errors
    /// [`Error::Netlink`]; also when the ruleset changes all the time.
    pub fn dump(
        &mut self,
        kind: u8,
        family: u8,
        attributes: &[(u16, &[u8])],
        action: &str,
    ) -> Result<Vec<Reply>> {
        let read = self.read(action, |lister| {
            lister.list(kind, family, attributes, action, |_| true)
        });
        read.map(|(_, objects)| objects)
    }

    /// What `list` makes of lists that are all of one moment, and the generation of the ruleset then: it is called until it
    /// gave the same twice in one generation, whatever packets were counted meanwhile.
    ///
    /// # Errors
    /// What `list` gives while nothing changes; [`Error::Netlink`], also when the ruleset changes all the time.
    pub fn read(
        &mut self,
        action: &str,
        mut list: impl FnMut(&mut Lister<'_>) -> Result<Vec<Reply>>,
    ) -> Result<(u32, Vec<Reply>)> {
        let mut before: Option<(u32, Vec<Reply>)> = None;
        for _ in 0..READINGS {
            let Some(generation) = self.settled_generation()? else {
                continue;
            };
            let mut lister = Lister {
                netlink: self,
                is_of_one_moment: true,
            };
            let listed = list(&mut lister);
            // The kernel marks a change between two datagrams, but none within the last. Something that has gone since
            // it was listed is an error which only says that there was a change.
            if !lister.is_of_one_moment || self.generation()? != generation {
                continue;
            }
            // A hash table that grows or shrinks between two datagrams, which is no change, loses elements of its list.
            let now = listed?;
            let is_same = |(known, objects): &(u32, Vec<Reply>)| {
                *known == generation && elements(objects).eq(elements(&now))
            };
            if before.as_ref().is_some_and(is_same) {
                return Ok((generation, now));
            }
            before = Some((generation, now));
        }
        Err(refused(action, Errno::INTR))
    }

    /// The generation of the ruleset if the transaction that made it is over: its number is there before its changes.
    fn settled_generation(&mut self) -> Result<Option<u32>> {
        let generation = self.generation()?;
        // An empty transaction waits for the one that is under way, changes nothing and is not answered.
        let first = self.take_sequence(2);
        let begin = frame(NFNL_MSG_BATCH_BEGIN).finish(first);
        let end = frame(NFNL_MSG_BATCH_END).finish(first.wrapping_add(1));
        self.send(&[&begin, &end])
            .map_err(|error| refused("wait for transactions of nf_tables", error))?;
        let settled = self.generation()? == generation;
        Ok(settled.then_some(generation))
    }

    /// What comes for one request, as far as it is to be kept.
    fn replies(
        &mut self,
        kind: u8,
        flags: u16,
        family: u8,
        attributes: &[(u16, &[u8])],
        action: &str,
        mut keep: impl FnMut(&Reply) -> bool,
    ) -> Result<Replies> {
        let flags = NLM_F_REQUEST | flags;
        let message = attributes.iter().fold(
            Message::new(message_type(kind), flags, &family_header(family, 0)),
            |message, (kind, bytes)| message.attribute(*kind, bytes),
        );
        let mut replies = Replies::default();
        let came_whole = self.request(message, flags, action, |message| replies.add(message, &mut keep))?;
        replies.are_of_one_moment &= came_whole;
        Ok(replies)
    }
}

/// What lists of one generation can differ in: the elements of sets, each as its set and its attributes, but for what
/// changes with the packets that it meets and with time.
fn elements(objects: &[Reply]) -> impl Iterator<Item = (&[u8], u16, &[u8])> {
    let lists = objects.iter().filter(|object| object.kind == NFT_MSG_NEWSETELEM);
    lists.flat_map(|object| {
        let set = object
            .attributes()
            .find(NFTA_SET_ELEM_LIST_SET)
            .unwrap_or_default();
        let list = object
            .attributes()
            .find(NFTA_SET_ELEM_LIST_ELEMENTS)
            .unwrap_or_default();
        let attributes = Attributes::of(list).flat_map(|(_, element)| Attributes::of(element));
        attributes
            .filter(|(kind, _)| !NFTA_SET_ELEM_STATE.contains(kind))
            .map(move |(kind, bytes)| (set, kind, bytes))
    })
}

/// What the kernel replied to one request.
struct Replies {
    objects: Vec<Reply>,
    are_of_one_moment: bool,
    /// The last bits of the generation of what was listed.
    resource: Option<u16>,
}

impl Default for Replies {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            are_of_one_moment: true,
            resource: None,
        }
    }
}

impl Replies {
    /// Takes one message, if it is one about an object, and the object if it is to be kept.
    fn add(&mut self, message: &[u8], keep: &mut impl FnMut(&Reply) -> bool) -> Option<()> {
        let interrupted = u16_at(message, 6)? & NLM_F_DUMP_INTR != 0;
        let resource = u16_at(message, HEADER + 2);
        let moved_on = self.resource.is_some() && self.resource != resource;
        self.are_of_one_moment &= !interrupted && !moved_on;
        self.resource = resource;
        let object = Reply::of(message)?;
        if keep(&object) {
            self.objects.push(object);
        }
        Some(())
    }
}
