//! Paths of fields as the API server writes them.

use std::fmt;
use std::rc::Rc;

/// The path of a field within its object, as in `spec.ingress[0].ports[1].endPort`. Empty for the object itself.
#[derive(Clone, Debug, Default)]
pub struct Path<'a>(Option<Rc<Step<'a>>>);

#[derive(Debug)]
struct Step<'a> {
    parent: Path<'a>,
    name: Name<'a>,
}

#[derive(Debug)]
enum Name<'a> {
    Field(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The path of a field of the mapping at this path.
    pub fn field(&self, name: &'a str) -> Self {
        self.step(Name::Field(name))
    }

    /// The path of an item of the list at this path, counted from 0.
    pub fn index(&self, index: usize) -> Self {
        self.step(Name::Index(index))
    }

    fn step(&self, name: Name<'a>) -> Self {
        let parent = self.clone();
        Self(Some(Rc::new(Step { parent, name })))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(step) = &self.0 else { return Ok(()) };
        step.parent.fmt(f)?;
        match step.name {
            Name::Field(name) if step.parent.0.is_none() => f.write_str(name),
            Name::Field(name) => write!(f, ".{name}"),
            Name::Index(index) => write!(f, "[{index}]"),
        }
    }
}
