//! Sets and maps as the kernel lists them.

use super::super::attributes::{Fields, Oddity, list};
use super::super::bytes::{
    ByteOrder, comment_of, data_type, key_of_type, read_number, userdata, value, width, write_userdata,
};
use super::super::container::{Shape, length, verdict_of};
use super::super::rule::OwnSet;
use super::super::uapi::{data, element, set, userdata as piece};
use crate::model::{Comment, Datatype, Datum, Key, Map, MapType, Name, Set};

/// A set or map.
pub(super) struct Container {
    key: Vec<Datatype>,
    gives: Option<MapType>,
    interval: bool,
    pub(super) is_anonymous: bool,
    comment: Option<Comment>,
    elements: Vec<Element>,
}

/// What the kernel lists for an element.
enum Element {
    Whole(Key, Option<Datum>),
    /// An end of an interval of one field.
    End {
        number: u128,
        is_first: bool,
        datum: Option<Datum>,
    },
}

impl Container {
    /// A set or map without its elements.
    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, Oddity> {
        fields.pass(&[set::TABLE, set::NAME]);
        fields.pass(&set::ABOUT);
        let key = key_of_type(fields.number(set::KEY_TYPE)?).ok_or(Oddity::Value("type of a key"))?;
        let gives = if fields.has(set::DATA_TYPE) {
            let given = (fields.number(set::DATA_TYPE)?, fields.number(set::DATA_LENGTH)?);
            let mut types = [MapType::Verdict, MapType::Mark, MapType::Priority].into_iter();
            let found = types.find(|one| data_type(*one).0 == given.0);
            // The kernel has bytes for a verdict, and nft says it needs none.
            let found = found.filter(|one| *one == MapType::Verdict || data_type(*one).1 == given.1);
            Some(found.ok_or(Oddity::Value("type of what a map gives"))?)
        } else {
            None
        };
        let flags = fields.number_or_zero(set::FLAGS)?;
        let mut container = Self {
            key,
            gives,
            interval: flags & set::INTERVAL != 0,
            is_anonymous: flags & set::ANONYMOUS_CONSTANT == set::ANONYMOUS_CONSTANT,
            comment: None,
            elements: Vec::new(),
        };
        let shape = container.shape();
        let anonymous = if container.is_anonymous {
            set::ANONYMOUS_CONSTANT
        } else {
            0
        };
        if flags != shape.flags() | anonymous {
            return Err(Oddity::Value("flags of a set"));
        }
        fields.expect(set::KEY_LENGTH, length(shape.key_length()))?;
        container.description(&mut fields)?;
        if fields.has(set::USERDATA) {
            container.comment = about(fields.bytes(set::USERDATA)?)?;
        }
        fields.end()?;
        Ok(container)
    }

    fn shape(&self) -> Shape<'_> {
        Shape {
            key: &self.key,
            gives: self.gives,
            interval: self.interval,
        }
    }

    /// The number of its elements, which only a set without a name may have, and the lengths of fields.
    fn description(&self, fields: &mut Fields<'_>) -> Result<(), Oddity> {
        if !fields.has(set::DESCRIPTION) {
            return Ok(());
        }
        let mut inside = fields.nested(set::DESCRIPTION)?;
        if self.is_anonymous {
            inside.pass(&[set::SIZE]);
        }
        if inside.has(set::CONCATENATION) {
            let described = list(inside.bytes(set::CONCATENATION)?)?;
            let same_number = described.len() == self.key.len();
            for (bytes, datatype) in described.into_iter().zip(&self.key) {
                let mut field = Fields::of(bytes);
                field.expect(set::FIELD_LENGTH, length(width(*datatype)))?;
                field.end()?;
            }
            if !same_number {
                return Err(Oddity::Value("number of fields"));
            }
        }
        inside.end()
    }

    /// Takes elements that the kernel lists in one message.
    pub(super) fn add(&mut self, elements: &[u8]) -> Result<(), Oddity> {
        for bytes in list(elements)? {
            let element = self.element(bytes)?;
            self.elements.push(element);
        }
        Ok(())
    }

    fn element(&self, bytes: &[u8]) -> Result<Element, Oddity> {
        let mut fields = Fields::of(bytes);
        let key = fields.nested(element::KEY)?;
        let flags = fields.number_or_zero(element::FLAGS)?;
        let datum = match self.gives {
            Some(gives) if flags == 0 => Some(datum(fields.nested(element::DATA)?, gives)?),
            _ => None,
        };
        let read = match self.key.as_slice() {
            &[datatype] if self.interval => {
                if fields.has(element::USERDATA) && fields.bytes(element::USERDATA)? != open_interval() {
                    return Err(Oddity::Value("user data of an element"));
                }
                let ends = numbers(key, &[datatype], ByteOrder::Network)?;
                let number = *ends.first().ok_or(Oddity::CutOff)?;
                match flags {
                    0 | element::INTERVAL_END => Element::End {
                        number,
                        is_first: flags == 0,
                        datum,
                    },
                    _ => return Err(Oddity::Value("flags of an element")),
                }
            }
            types if flags == 0 => {
                let order = ByteOrder::of(self.interval);
                let first = numbers(key, types, order)?;
                let last = if self.interval && fields.has(element::KEY_END) {
                    numbers(fields.nested(element::KEY_END)?, types, order)?
                } else {
                    first.clone()
                };
                Element::Whole(key_of(types, &first, &last)?, datum)
            }
            _ => return Err(Oddity::Value("flags of an element")),
        };
        fields.end()?;
        Ok(read)
    }

    /// The set or map with what was added.
    pub(super) fn named(self, name: Name) -> Result<Named, Oddity> {
        let pairs = pairs(self.interval, &self.key, self.elements)?;
        let comment = self.comment;
        let Some(gives) = self.gives else {
            let keys = pairs.into_iter().map(|(key, _)| key);
            let made = counted(keys, |keys| Set::new(name, self.key, self.interval, keys))?;
            return Ok(Named::Set(match comment {
                Some(comment) => made.commented(comment),
                None => made,
            }));
        };
        let pairs = pairs.into_iter().filter_map(|(key, datum)| Some((key, datum?)));
        let made = Map::new(name, self.key, gives, self.interval, pairs).map_err(Oddity::Model)?;
        Ok(Named::Map(match comment {
            Some(comment) => made.commented(comment),
            None => made,
        }))
    }

    /// The set that a rule has for itself.
    pub(super) fn own(self) -> Result<OwnSet, Oddity> {
        let (&[datatype], None) = (self.key.as_slice(), self.gives) else {
            return Err(Oddity::Value("set without a name"));
        };
        let pairs = pairs(self.interval, &self.key, self.elements)?;
        Ok(OwnSet {
            datatype,
            interval: self.interval,
            values: pairs
                .into_iter()
                .flat_map(|(key, _)| key.values().to_vec())
                .collect(),
        })
    }
}

/// A set or a map of the model.
pub(super) enum Named {
    Set(Set),
    Map(Map),
}

/// What `make` makes of keys, none of which it may lose.
fn counted(
    keys: impl ExactSizeIterator<Item = Key>,
    make: impl FnOnce(Vec<Key>) -> Result<Set, crate::model::ModelError>,
) -> Result<Set, Oddity> {
    let keys: Vec<Key> = keys.collect();
    let count = keys.len();
    let made = make(keys).map_err(Oddity::Model)?;
    if made.elements().len() == count {
        Ok(made)
    } else {
        Err(Oddity::Value("element twice"))
    }
}

/// The comment in what stands beside a set.
fn about(bytes: &[u8]) -> Result<Option<Comment>, Oddity> {
    let mut comment = None;
    for (kind, value) in userdata(bytes).ok_or(Oddity::CutOff)? {
        match kind {
            0..piece::SET_COMMENT => {}
            piece::SET_COMMENT => comment = Some(comment_of(value).ok_or(Oddity::Value("comment"))?),
            _ => return Err(Oddity::Value("user data of a set")),
        }
    }
    Ok(comment)
}

/// What is written beside the start of an interval that has no end.
fn open_interval() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_userdata(
        &mut bytes,
        piece::ELEMENT_FLAGS,
        &piece::INTERVAL_OPEN.to_ne_bytes(),
    );
    bytes
}

fn datum(mut fields: Fields<'_>, gives: MapType) -> Result<Datum, Oddity> {
    if gives == MapType::Verdict {
        return verdict_of(fields).map(Datum::Verdict);
    }
    let bytes = fields.bytes(data::VALUE)?;
    let number = u32::from_ne_bytes(bytes.try_into().map_err(|_| Oddity::CutOff)?);
    fields.end()?;
    Ok(match gives {
        MapType::Priority => Datum::Priority(number),
        MapType::Mark | MapType::Verdict => Datum::Mark(number),
    })
}

/// The numbers of the fields of a key.
fn numbers(mut key: Fields<'_>, types: &[Datatype], order: ByteOrder) -> Result<Vec<u128>, Oddity> {
    let mut rest = key.bytes(data::VALUE)?;
    key.end()?;
    let mut numbers = Vec::with_capacity(types.len());
    for &datatype in types {
        let (field, after) = rest.split_at_checked(width(datatype)).ok_or(Oddity::CutOff)?;
        numbers.push(read_number(field, datatype, order).ok_or(Oddity::CutOff)?);
        rest = after;
        if types.len() > 1 {
            let padding = width(datatype).next_multiple_of(4) - width(datatype);
            let (padding, after) = rest.split_at_checked(padding).ok_or(Oddity::CutOff)?;
            if padding.iter().any(|&byte| byte != 0) {
                return Err(Oddity::Value("padding of a key"));
            }
            rest = after;
        }
    }
    if rest.is_empty() {
        Ok(numbers)
    } else {
        Err(Oddity::Value("length of a key"))
    }
}

fn key_of(types: &[Datatype], first: &[u128], last: &[u128]) -> Result<Key, Oddity> {
    // There are many, and most have one value: room for that and no more.
    let mut values = Vec::with_capacity(types.len());
    for (datatype, (first, last)) in types.iter().zip(first.iter().zip(last)) {
        values.push(value(*datatype, *first, *last).ok_or(Oddity::Value("element"))?);
    }
    Ok(Key::of(values))
}

/// Keys and what they give: the ends of intervals of one field put together.
fn pairs(
    interval: bool,
    types: &[Datatype],
    elements: Vec<Element>,
) -> Result<Vec<(Key, Option<Datum>)>, Oddity> {
    let (mut pairs, mut ends) = (Vec::with_capacity(elements.len()), Vec::new());
    for element in elements {
        match element {
            Element::Whole(key, datum) => pairs.push((key, datum)),
            Element::End {
                number,
                is_first,
                datum,
            } => ends.push((number, is_first, datum)),
        }
    }
    if let (true, &[datatype]) = (interval, types) {
        // Where one interval begins behind the last, that ends first.
        ends.sort_by_key(|(number, is_first, _)| (*number, *is_first));
        let highest = u128::MAX >> (128 - 8 * width(datatype));
        for (first, last, datum) in intervals(ends, highest)? {
            pairs.push((key_of(types, &[first], &[last])?, datum));
        }
    }
    Ok(pairs)
}

/// Intervals with what they give, of their sorted starts and of the first values behind them.
fn intervals(
    ends: Vec<(u128, bool, Option<Datum>)>,
    highest: u128,
) -> Result<Vec<(u128, u128, Option<Datum>)>, Oddity> {
    let mut intervals = Vec::with_capacity(ends.len() / 2 + 1);
    let mut open: Option<(u128, Option<Datum>)> = None;
    for (number, is_first, datum) in ends {
        match (is_first, open.take()) {
            (true, None) => open = Some((number, datum)),
            (false, Some((first, datum))) => {
                let last = number.checked_sub(1).ok_or(Oddity::Value("end of an interval"))?;
                intervals.push((first, last, datum));
            }
            // nft puts an end at zero into new sets, which means nothing.
            (false, None) if number == 0 => {}
            _ => return Err(Oddity::Value("end of an interval")),
        }
    }
    if let Some((first, datum)) = open {
        intervals.push((first, highest, datum));
    }
    Ok(intervals)
}
