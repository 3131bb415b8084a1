use skep_proto::dataplane::v1 as proto;

use super::invalid::{Fault, each};
use super::{Labels, Problem};

/// A label selector: every requirement must hold; none selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// Requirements, in the order of the object.
    pub requirements: Vec<Requirement>,
}

/// One requirement of a [`Selector`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requirement {
    /// The label is there and has one of the values.
    In(String, Vec<String>),
    /// The label is absent, or has none of the values.
    NotIn(String, Vec<String>),
    /// The label is there.
    Exists(String),
    /// The label is absent.
    DoesNotExist(String),
}

impl Selector {
    /// Selects everything.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Whether an object with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::DoesNotExist(key) => !labels.contains_key(key),
        })
    }
}

impl Selector {
    pub(crate) fn from_wire(wire: proto::LabelSelector) -> Result<Self, Fault> {
        // The message's map has no order of its own: sorted, so that equal selectors compare equal.
        let labels: Labels = wire.match_labels.into_iter().collect();
        let mut requirements: Vec<_> =
            labels.into_iter().map(|(key, value)| Requirement::In(key, vec![value])).collect();
        requirements.extend(each("match_expressions", wire.match_expressions, Requirement::from_wire)?);
        Ok(Self { requirements })
    }
}

impl Requirement {
    fn from_wire(wire: proto::LabelSelectorRequirement) -> Result<Self, Fault> {
        use proto::label_selector_requirement::Operator;

        let proto::LabelSelectorRequirement { key, operator, values } = wire;
        if key.is_empty() {
            return Err(Fault::new("key", Problem::Missing));
        }
        let wants_values = matches!(Operator::try_from(operator), Ok(Operator::In | Operator::NotIn));
        if wants_values == values.is_empty() {
            return Err(Fault::new("values", Problem::Values(values.len())));
        }
        match Operator::try_from(operator) {
            Ok(Operator::In) => Ok(Self::In(key, values)),
            Ok(Operator::NotIn) => Ok(Self::NotIn(key, values)),
            Ok(Operator::Exists) => Ok(Self::Exists(key)),
            Ok(Operator::DoesNotExist) => Ok(Self::DoesNotExist(key)),
            Ok(Operator::Unspecified) | Err(_) => Err(Fault::new("operator", Problem::Operator(operator))),
        }
    }
}
