//! Reads the table files.

use std::collections::HashMap;

use super::{Field, Merge, Number, Schema, Shape, Type, TypeId};

pub(super) const TABLES: &[&str] = &[
    include_str!("tables/meta.schema"),
    include_str!("tables/core_objects.schema"),
    include_str!("tables/core_pods.schema"),
    include_str!("tables/core_containers.schema"),
    include_str!("tables/core_volumes.schema"),
    include_str!("tables/apps.schema"),
    include_str!("tables/autoscaling.schema"),
    include_str!("tables/coordination.schema"),
    include_str!("tables/discovery.schema"),
    include_str!("tables/events.schema"),
    include_str!("tables/networking.schema"),
    include_str!("tables/policy.schema"),
    include_str!("tables/skep.schema"),
];

/// A line that says nothing known. The tables are part of the build, and a test holds them free of any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// The schema and the lines that were skipped.
pub(super) fn parse(tables: &[&'static str]) -> (Schema, Vec<Malformed>) {
    let mut schema = Schema::default();
    let mut malformed = Vec::new();
    for (package, line) in heads(tables) {
        let id = TypeId(schema.types.len());
        schema.types.push(Type { name: line, package: package.full, short_package: package.short, fields: Vec::new() });
        schema.by_name.insert(leak(format!("{}.{line}", package.short)), id);
    }
    let mut next = 0;
    for table in tables {
        let mut short = "";
        for line in table.lines() {
            if let Some(package) = Package::parse(line) {
                short = package.short;
            } else if let Some(field) = line.strip_prefix("  ") {
                match parse_field(field, short, &schema.by_name) {
                    Some(field) => schema.types[next - 1].fields.push(field),
                    None => malformed.push(Malformed(line)),
                }
            } else if !line.is_empty() {
                next += 1;
            }
        }
    }
    (schema, malformed)
}

#[derive(Clone, Copy)]
struct Package {
    short: &'static str,
    full: &'static str,
}

impl Package {
    fn parse(line: &'static str) -> Option<Self> {
        let (short, full) = line.strip_prefix("package ")?.split_once(' ')?;
        Some(Self { short, full })
    }
}

/// Every type line with its package.
fn heads(tables: &[&'static str]) -> Vec<(Package, &'static str)> {
    let mut heads = Vec::new();
    let mut package = Package { short: "", full: "" };
    for line in tables.iter().flat_map(|t| t.lines()) {
        if let Some(next) = Package::parse(line) {
            package = next;
        } else if !line.is_empty() && !line.starts_with(' ') {
            heads.push((package, line));
        }
    }
    heads
}

/// The schema lives as long as the program; its few hundred names are made once.
fn leak(name: String) -> &'static str {
    Box::leak(name.into_boxed_str())
}

fn parse_field(text: &'static str, package: &str, names: &HashMap<&'static str, TypeId>) -> Option<Field> {
    let mut words = text.split(' ');
    let name = words.next()?;
    let shape = parse_shape(words.next()?, package, names)?;
    let mut merge = Merge::default();
    let mut number = None;
    for attribute in words {
        match attribute.split_once('=') {
            None if attribute.starts_with('#') => number = Some(parse_number(&attribute[1..])?),
            None if attribute == "merge" => merge.merge = true,
            None if attribute == "retain" => merge.retain_keys = true,
            Some(("merge", key)) => {
                merge.merge = true;
                merge.key = Some(key);
            }
            Some(("keys", keys)) => merge.list_keys = keys.split(',').collect(),
            _ => return None,
        }
    }
    let (name, keeps_zero) = strip(name, '?');
    let (name, required) = strip(name, '!');
    Some(Field { name, shape, required, keeps_zero, number, merge })
}

fn strip(name: &'static str, mark: char) -> (&'static str, bool) {
    match name.strip_suffix(mark) {
        Some(name) => (name, true),
        None => (name, false),
    }
}

fn parse_number(text: &str) -> Option<Number> {
    match text.split_once('.') {
        Some((outer, inner)) => Some(Number::Inline(outer.parse().ok()?, inner.parse().ok()?)),
        None => text.parse().ok().map(Number::Own),
    }
}

fn parse_shape(text: &str, package: &str, names: &HashMap<&'static str, TypeId>) -> Option<Shape> {
    if let Some(inner) = text.strip_prefix("[]") {
        return Some(Shape::List(Box::new(parse_shape(inner, package, names)?)));
    }
    if let Some(inner) = text.strip_prefix("{}") {
        return Some(Shape::Map(Box::new(parse_shape(inner, package, names)?)));
    }
    Some(match text {
        "string" => Shape::String,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "bool" => Shape::Bool,
        "double" => Shape::Double,
        "bytes" => Shape::Bytes,
        "quantity" => Shape::Quantity,
        "intOrString" => Shape::IntOrString,
        "time" => Shape::Time,
        "microTime" => Shape::MicroTime,
        "any" => Shape::Any,
        name if name.contains('.') => Shape::Object(*names.get(name)?),
        name => Shape::Object(*names.get(format!("{package}.{name}").as_str())?),
    })
}
