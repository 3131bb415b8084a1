use super::{ObjectRef, Selector};

/// Why an object on the stream was not taken. The object's earlier version, if any, stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {field}: {problem}")]
pub struct Invalid {
    /// The object.
    pub object: ObjectRef,
    /// Path of the first bad field, e.g. `ingress[0].peers[1].ip_block.cidr`.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
    /// The pods that a bad NetworkPolicy selects, when its selector could be read: they must be closed.
    pub(crate) selects: Option<Selector>,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A field that must be there is absent or empty.
    #[error("required")]
    Missing,
    /// Not an IP address.
    #[error("not an IP address: {0:?}")]
    Address(String),
    /// Not an address prefix.
    #[error("not a CIDR: {0:?}")]
    Cidr(String),
    /// Not an address family.
    #[error("not an address family (IPv4, IPv6): {0:?}")]
    Family(String),
    /// A type of Service of the message that this version does not know.
    #[error("unknown type of Service {0}")]
    ServiceType(i32),
    /// A time beyond what the API allows.
    #[error("{0} is not in 0-{1} seconds")]
    Seconds(u32, u32),
    /// A value where there must be none.
    #[error("must be empty: the Service is {0}")]
    Unexpected(&'static str),
    /// A prefix that must lie in another one does not.
    #[error("{inner} is not in {outer}")]
    OutsideOf {
        /// The prefix.
        inner: String,
        /// Where it must be.
        outer: String,
    },
    /// Not a port number.
    #[error("{0} is not in 1-65535")]
    Port(u32),
    /// Last port of a range before its first, or a range without a first.
    #[error("{0} does not end a range that begins at `number`")]
    EndPort(u32),
    /// A protocol number of the message that this version does not know.
    #[error("unknown protocol {0}")]
    Protocol(i32),
    /// An object kind of the message that this version does not know.
    #[error("unknown kind {0}")]
    Kind(i32),
    /// A selector operator of the message that this version does not know.
    #[error("unknown operator {0}")]
    Operator(i32),
    /// Values given to an operator that takes none, or none to one that needs some.
    #[error("{0} values for this operator")]
    Values(usize),
    /// Two entries of a list that must differ.
    #[error("duplicate of {0}")]
    Duplicate(String),
}

/// A problem and the path to it, while the object it belongs to is being read.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) field: String,
    pub(crate) problem: Problem,
}

impl Fault {
    pub(crate) fn new(field: &str, problem: Problem) -> Self {
        Self { field: field.to_owned(), problem }
    }

    /// Puts the path in its parent: `parent.field`.
    pub(crate) fn within(mut self, parent: &str) -> Self {
        let dot = if self.field.is_empty() { "" } else { "." };
        self.field = format!("{parent}{dot}{}", self.field);
        self
    }

    /// Puts the path in an element of a list: `list[index].field`.
    pub(crate) fn at(self, list: &str, index: usize) -> Self {
        self.within(&format!("{list}[{index}]"))
    }

    pub(crate) fn of(self, object: ObjectRef) -> Invalid {
        Invalid { object, field: self.field, problem: self.problem, selects: None }
    }
}

/// Converts each element of a list; the error names the element.
pub(crate) fn each<T, U>(field: &str, list: Vec<T>, convert: impl Fn(T) -> Result<U, Fault>) -> Result<Vec<U>, Fault> {
    list.into_iter().enumerate().map(|(i, item)| convert(item).map_err(|fault| fault.at(field, i))).collect()
}
