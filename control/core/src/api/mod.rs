//! API machinery: the registry of resources and everything between the bytes of a request and the bytes of the store.
//!
//! ```text
//! body --parse_json / Document::new--> Document --decode--> object (Value, known fields, right types)
//!   create: prepare_create -> service_ip::allocate (Services) -> store
//!   update: prepare_update(new, old) -> Unchanged | Changed | Remove -> store
//!   patch:  patch(current) -> decode -> prepare_update -> store
//!   delete: prepare_delete(object, options, now) -> Update | Remove | Unchanged -> store
//! stored --set_resource_version, from_storage--> object | table | partial
//! ```
//!
//! Objects are `serde_json::Value` of a shape that [`decode`] has checked. Every fault is a [`Status`].

mod access;
mod base64;
pub mod decode;
pub mod delete;
pub mod discovery;
pub mod field;
pub mod meta;
mod names;
pub mod openapi;
pub mod patch;
mod pod;
pub mod quantity;
pub mod resource;
pub mod resources;
pub mod schema;
pub mod select;
pub mod service_ip;
pub mod status;
pub mod subresource;
pub mod table;
pub mod write;

pub use decode::{Decoded, Document, FieldValidation, MAX_BODY, decode, parse_json, parse_protobuf};
pub use delete::{DeleteOptions, Deletion, prepare_delete};
pub use patch::{PatchType, patch};
pub use resource::{Registry, Resource, Subresource, Verb};
pub use resources::registry;
pub use select::{FieldSelector, LabelSelector};
pub use status::{Reason, Status};
pub use table::{IncludeObject, partial, partial_list, table};
pub use write::{Fresh, Update, prepare_create, prepare_update};
