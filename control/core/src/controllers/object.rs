//! Objects as the controllers hold them: typed where a controller decides on them, metadata alone where only ownership matters.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Event, Namespace, Node, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::address_pool::AddressPool;
use super::kind::{Key, Kind};

/// A typed Kubernetes object that an [`Object`] can carry.
pub trait Typed: Sized {
    /// Kind of the object.
    const KIND: Kind;
    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Wraps the object.
    fn into_object(self) -> Object;
    /// The object inside, if it is of this type.
    fn of(object: &Object) -> Option<&Arc<Self>>;
}

macro_rules! objects {
    ($($kind:ident),* $(,)?) => {
        /// One object, cheap to clone.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "the variants are the kinds' own names")]
        pub enum Object {
            $($kind(Arc<$kind>),)*
            /// Metadata alone, of a kind whose content no controller reads.
            Metadata(Kind, Arc<ObjectMeta>),
        }

        impl Object {
            /// Kind of the object.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)*
                    Self::Metadata(kind, _) => *kind,
                }
            }

            /// The object's metadata.
            #[must_use]
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$kind(object) => &object.metadata,)*
                    Self::Metadata(_, metadata) => metadata,
                }
            }

            /// The object as JSON with `apiVersion` and `kind`.
            ///
            /// # Errors
            /// When the object cannot be serialized, which no value of these types is known to do.
            pub fn to_json(&self) -> serde_json::Result<serde_json::Value> {
                match self {
                    $(Self::$kind(object) => serde_json::to_value(object.as_ref()),)*
                    Self::Metadata(kind, metadata) => Ok(serde_json::json!({
                        "apiVersion": kind.api_version(), "kind": kind.name(), "metadata": metadata.as_ref(),
                    })),
                }
            }
        }

        $(impl Typed for $kind {
            const KIND: Kind = Kind::$kind;
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn into_object(self) -> Object {
                Object::$kind(Arc::new(self))
            }
            fn of(object: &Object) -> Option<&Arc<Self>> {
                match object {
                    Object::$kind(object) => Some(object),
                    _ => None,
                }
            }
        })*
    };
}

objects!(
    AddressPool,
    ConfigMap,
    Deployment,
    EndpointSlice,
    Endpoints,
    Event,
    Lease,
    Namespace,
    Node,
    Pod,
    ReplicaSet,
    Service,
    ServiceAccount,
);

impl Object {
    /// Decodes what a controller needs of an object: the typed object for kinds that are decided on, metadata for the rest.
    ///
    /// # Errors
    /// When the JSON is not an object of the kind.
    pub fn decode(kind: Kind, json: &[u8]) -> serde_json::Result<Self> {
        #[derive(serde::Deserialize)]
        struct Partial {
            #[serde(default)]
            metadata: ObjectMeta,
        }
        fn typed<K: Typed + serde::de::DeserializeOwned>(json: &[u8]) -> serde_json::Result<Object> {
            serde_json::from_slice::<K>(json).map(K::into_object)
        }
        match kind {
            Kind::AddressPool => typed::<AddressPool>(json),
            Kind::Deployment => typed::<Deployment>(json),
            Kind::Endpoints => typed::<Endpoints>(json),
            Kind::EndpointSlice => typed::<EndpointSlice>(json),
            Kind::Lease => typed::<Lease>(json),
            Kind::Namespace => typed::<Namespace>(json),
            Kind::Node => typed::<Node>(json),
            Kind::Pod => typed::<Pod>(json),
            Kind::ReplicaSet => typed::<ReplicaSet>(json),
            Kind::Service => typed::<Service>(json),
            // Their content can be large and nothing here reads it.
            Kind::ConfigMap | Kind::Event | Kind::NetworkPolicy | Kind::Secret | Kind::ServiceAccount => {
                serde_json::from_slice::<Partial>(json).map(|partial| Self::Metadata(kind, Arc::new(partial.metadata)))
            }
        }
    }

    /// Key of the object.
    #[must_use]
    pub fn key(&self) -> Key {
        key_of(self.kind(), self.metadata())
    }

    /// UID, empty when the API has not assigned one yet.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// Revision at which the object was last written; 0 when it never was.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.metadata().resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

/// Key of an object by its kind and metadata.
#[must_use]
pub fn key_of(kind: Kind, metadata: &ObjectMeta) -> Key {
    Key::new(kind, metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}
