//! Shapes of all served objects: one compact table that decoding, strategic merge and OpenAPI are derived from.
//!
//! A table file holds types of one package:
//!
//! ```text
//! package apps io.k8s.api.apps.v1      short name for references from other files, full name for OpenAPI
//!
//! DeploymentSpec                           a type
//!   replicas? int32 #1                     a field: name, shape, number in protobuf, attributes
//!   selector! meta.LabelSelector #2        `!`: required; `?`: a zero value says something, absence something else
//!   strategy DeploymentStrategy #4 retain  attributes: retain, merge[=KEY], keys=KEY,KEY
//! ```
//!
//! A number such as `#2.4` is field 4 of a message at field 2 that JSON has inline.
//!
//! Shapes: `string int32 int64 bool double bytes quantity intOrString time microTime any`, a type's name,
//! `[]SHAPE` and `{}SHAPE` (a map with string keys).

mod check;
mod parse;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) use check::prefix;
pub use check::{Check, TypeFault};

/// All types, addressed by [`TypeId`].
#[derive(Debug, Default)]
pub struct Schema {
    types: Vec<Type>,
    by_name: HashMap<&'static str, TypeId>,
}

/// Index of a type in the [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeId(usize);

/// One object type.
#[derive(Debug)]
pub struct Type {
    /// Name inside its package: `DeploymentSpec`.
    pub name: &'static str,
    /// Package: `io.k8s.api.apps.v1`.
    pub package: &'static str,
    /// Short name of the package in the tables: `apps`.
    pub short_package: &'static str,
    /// In table order.
    pub fields: Vec<Field>,
}

/// One field.
#[derive(Debug)]
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    /// What it holds.
    pub shape: Shape,
    /// Whether OpenAPI lists it as required.
    pub required: bool,
    /// Whether a zero value differs from absence.
    pub keeps_zero: bool,
    /// Where protobuf has it; `None` for what travels outside the message.
    pub number: Option<Number>,
    /// How a strategic merge patch treats it.
    pub merge: Merge,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text.
    String,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// true or false.
    Bool,
    /// Floating point.
    Double,
    /// Base64 text.
    Bytes,
    /// Resource quantity: text or number.
    Quantity,
    /// Integer or text.
    IntOrString,
    /// RFC 3339, seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
    /// Anything.
    Any,
    /// An object of that type.
    Object(TypeId),
    /// A list.
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
}

/// Field number in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// A field of the message itself.
    Own(u32),
    /// `(outer, inner)`: a field of a message that JSON has inline.
    Inline(u32, u32),
}

/// Patch attributes of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// Lists merge element by element rather than being replaced.
    pub merge: bool,
    /// The key that tells elements apart; `None` for lists of scalars.
    pub key: Option<&'static str>,
    /// `$retainKeys` is honoured.
    pub retain_keys: bool,
    /// All keys of a list map, for OpenAPI; empty when it is just `key`.
    pub list_keys: Vec<&'static str>,
}

impl Type {
    /// The field of that JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// `io.k8s.api.apps.v1.DeploymentSpec`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.package, self.name)
    }
}

impl Schema {
    /// The type of that id.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0]
    }

    /// The type of `package short name.type name`, such as `apps.Deployment`.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// All types.
    pub fn types(&self) -> impl Iterator<Item = &Type> {
        self.types.iter()
    }

    /// The type of a served kind; the package's short name is the first label of its group.
    pub fn of_kind(&self, group: &str, kind: &str) -> Option<TypeId> {
        let package = match group.split('.').next() {
            None | Some("") => "core",
            Some(first) => first,
        };
        self.find(&format!("{package}.{kind}"))
    }

    /// The type of a body that is no object of its own: `DeleteOptions`.
    pub fn of_options(&self, kind: &str) -> Option<TypeId> {
        self.find(&format!("meta.{kind}"))
    }
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| parse::parse(parse::TABLES).0);

/// The tables of this build.
pub fn schema() -> &'static Schema {
    &SCHEMA
}

#[cfg(test)]
mod tests;
