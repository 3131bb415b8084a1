use skep_proto::dataplane::v1 as proto;

use super::invalid::Fault;
use super::{
    EndpointSlice, Invalid, Kind, Namespace, NetworkPolicy, NodeRoute, ObjectName, ObjectRef, Problem, Service,
    Workload,
};

/// One event of the dataplane stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The store revision that the event brings the receiver to.
    pub revision: u64,
    /// What happened.
    pub change: Change,
}

/// What an [`Event`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A full snapshot begins.
    SnapshotBegin,
    /// The state is complete at the event's revision.
    Synced,
    /// Nothing changed up to the event's revision.
    Progress,
    /// An object is gone.
    Deleted(Kind, ObjectName),
    /// A Service was created or changed.
    Service(Service),
    /// An EndpointSlice was created or changed.
    EndpointSlice(EndpointSlice),
    /// A NetworkPolicy was created or changed.
    NetworkPolicy(NetworkPolicy),
    /// A pod was created or changed.
    Workload(Workload),
    /// A Namespace was created or changed.
    Namespace(Namespace),
    /// The way to a node's pods was created or changed.
    NodeRoute(NodeRoute),
}

impl TryFrom<proto::WatchEvent> for Event {
    type Error = Box<Invalid>;

    /// Reads an event of the stream.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the object and the first bad field. Give it to [`Index::reject`](super::Index::reject) and go on.
    fn try_from(wire: proto::WatchEvent) -> Result<Self, Box<Invalid>> {
        use proto::watch_event::Event as Wire;

        fn named(kind: Kind, namespace: &str, name: &str) -> impl FnOnce(Fault) -> Box<Invalid> + use<> {
            let object = ObjectRef::new(kind, namespace, name);
            move |fault| Box::new(fault.of(object))
        }

        let change = match wire.event {
            Some(Wire::SnapshotBegin(_)) => Change::SnapshotBegin,
            Some(Wire::Synced(_)) => Change::Synced,
            Some(Wire::Progress(_)) => Change::Progress,
            Some(Wire::Deleted(wire)) => {
                let name = ObjectName { namespace: wire.namespace, name: wire.name };
                match Kind::from_wire(wire.kind) {
                    Ok(kind) => Change::Deleted(kind, name),
                    Err(problem) => {
                        return Err(Box::new(Fault::new("kind", problem).of(ObjectRef { kind: None, name })));
                    }
                }
            }
            Some(Wire::Service(wire)) => {
                let invalid = named(Kind::Service, &wire.namespace, &wire.name);
                Change::Service(Service::from_wire(wire).map_err(invalid)?)
            }
            Some(Wire::EndpointSlice(wire)) => {
                let invalid = named(Kind::EndpointSlice, &wire.namespace, &wire.name);
                Change::EndpointSlice(EndpointSlice::from_wire(wire).map_err(invalid)?)
            }
            Some(Wire::NetworkPolicy(wire)) => {
                let invalid = named(Kind::NetworkPolicy, &wire.namespace, &wire.name);
                let policy = NetworkPolicy::from_wire(wire).map_err(|(fault, selects)| {
                    let mut invalid = invalid(fault);
                    invalid.selects = selects;
                    invalid
                })?;
                Change::NetworkPolicy(policy)
            }
            Some(Wire::Workload(wire)) => {
                let invalid = named(Kind::Workload, &wire.namespace, &wire.name);
                Change::Workload(Workload::from_wire(wire).map_err(invalid)?)
            }
            Some(Wire::Namespace(wire)) => {
                let invalid = named(Kind::Namespace, "", &wire.name);
                Change::Namespace(Namespace::from_wire(wire).map_err(invalid)?)
            }
            Some(Wire::NodeRoute(wire)) => {
                let invalid = named(Kind::NodeRoute, "", &wire.name);
                Change::NodeRoute(NodeRoute::from_wire(wire).map_err(invalid)?)
            }
            // A kind of event of a newer control service reads as none at all.
            None => {
                let object = ObjectRef { kind: None, name: ObjectName::new("", &format!("at {}", wire.revision)) };
                return Err(Box::new(Fault::new("event", Problem::Missing).of(object)));
            }
        };
        Ok(Self { revision: wire.revision, change })
    }
}
