// FINAL signatures of control::api (engineer R), for S (gRPC) and T (controllers). `use crate::api::{...}`. Real code lands in control/src/api/** ~16:15.
// Errors are skep_control_core::api::Status. `resource: impl ResourceRef` = &str storage name ("pods", "nodes", "deployments.apps", "endpointslices.discovery.k8s.io",
// "leases.coordination.k8s.io", "networkpolicies.networking.k8s.io") or &'static skep_control_core::api::Resource. Unknown = 404 Status.
// `ns` is "" for cluster-scoped resources, and in list/watch also for "every namespace". Api is Clone + Send + Sync + 'static (an Arc).
// Subresource, PatchType, DeleteOptions (incl. preconditions, propagation_policy), FieldValidation, LabelSelector, FieldSelector are I's (skep_control_core::api).

pub struct Caller { pub user: String, pub groups: Vec<String> }          // Clone, Debug, Eq; request extension on gRPC and REST
impl Caller {
    pub fn system(component: &str) -> Caller;      // in-process: user "system:<component>" groups [system:masters]; Caller::system("deployment-controller")
    pub fn node_name(&self) -> Option<&str>;        // Some for CN=system:node:NAME with group system:nodes
    pub fn is_admin(&self) -> bool;                 // in system:masters
}

/// One object at one revision; cheap to clone (shared bytes), parsed only when asked.
pub struct Object { pub revision: u64, /* private: resource, key, bytes */ }
impl Object {
    pub fn resource(&self) -> &'static Resource;
    pub fn namespace(&self) -> &str;                // from the key, no parsing
    pub fn name(&self) -> &str;
    pub fn json(&self) -> Bytes;                    // whole JSON with metadata.resourceVersion spliced in; no parsing
    pub fn value(&self) -> Result<serde_json::Value, Status>;          // with resourceVersion
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, Status>;    // k8s_openapi type, with resourceVersion
}

pub struct List { pub revision: u64, pub items: Vec<Object>, pub continue_token: Option<String>, pub remaining: Option<u64> }
#[derive(Default)]
pub struct ListOptions { pub labels: LabelSelector, pub fields: FieldSelector, pub limit: usize, pub continue_token: Option<String>, pub revision: At /* default Now */ }

#[derive(Default, Clone)]
pub struct WriteOptions { pub dry_run: bool, pub field_validation: FieldValidation }   // default: what controllers want

pub enum WatchKind { Added, Modified, Deleted }
pub struct WatchEvent { pub kind: WatchKind, pub object: Object /* for Deleted: last state, revision of the deletion */, pub previous: Option<Object> }
pub enum WatchItem { Events(u64 /* revision */, Vec<WatchEvent> /* all of that revision in the range */), Progress(u64) }
pub struct Watch; impl Watch { pub async fn next(&mut self) -> Result<WatchItem, Status>; }   // 410 Expired Status when lagged/compacted: list again. Cancel-safe.

impl Api {
    pub async fn get(&self, resource, ns: &str, name: &str) -> Result<Object, Status>;                // 404 NotFound
    pub async fn list(&self, resource, ns: &str, options: &ListOptions) -> Result<List, Status>;
    pub async fn watch(&self, resource, ns: &str, after: u64) -> Result<Watch, Status>;              // events with revision > after (list.revision)
    pub async fn watch_all(&self, after: u64) -> Result<Watch, Status>;                               // every resource in one ordered stream; object.resource() tells which
    pub async fn create(&self, caller: &Caller, resource, ns: &str, object: Value, options: &WriteOptions) -> Result<Object, Status>;
    pub async fn update(&self, caller: &Caller, resource, subresource: Option<Subresource>, ns: &str, name: &str, object: Value, options: &WriteOptions)
        -> Result<Object, Status>;                                                                     // optimistic when object has resourceVersion
    /// Read, change, write, again on conflict. `change` may run several times; Ok(false) = leave as it is (returns current). Best for status writes.
    pub async fn modify(&self, caller: &Caller, resource, subresource: Option<Subresource>, ns: &str, name: &str,
        change: impl FnMut(&mut Value) -> Result<bool, Status> + Send) -> Result<Object, Status>;
    pub async fn patch(&self, caller: &Caller, resource, subresource: Option<Subresource>, ns: &str, name: &str, patch_type: PatchType, body: &[u8], options: &WriteOptions)
        -> Result<(Object, Vec<String> /* warnings */), Status>;
    pub async fn delete(&self, caller: &Caller, resource, ns: &str, name: &str, options: &DeleteOptions) -> Result<Deleted, Status>;
    pub async fn bind(&self, caller: &Caller, ns: &str, pod: &str, binding: &Value) -> Result<Object, Status>;   // v1 Binding JSON; 409 when already bound
    pub fn revision(&self) -> u64;                                                                    // current store revision
    pub fn config(&self) -> &ApiConfig;                                                               // service_cidrs, cluster_cidrs: Vec<Cidr>, lease_duration_seconds: u32
    pub fn store(&self) -> &Backend;                                                                  // raw store: for S (node pod CIDR keys /registry/ranges/podcidrs/..)

    // Typed sugar; K: k8s_openapi::Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned
    pub async fn read<K>(&self, ns: &str, name: &str) -> Result<K, Status>;
    pub async fn read_all<K>(&self, ns: &str) -> Result<(u64, Vec<K>), Status>;
    pub async fn make<K>(&self, caller: &Caller, object: &K) -> Result<K, Status>;                    // ns from metadata.namespace
    pub async fn replace<K>(&self, caller: &Caller, object: &K) -> Result<K, Status>;                 // optimistic (metadata.resourceVersion)
    pub async fn replace_status<K>(&self, caller: &Caller, object: &K) -> Result<K, Status>;
}
pub struct Deleted { pub object: Object, pub removed: bool }   // removed=false: only marked (deletionTimestamp), finalizers or grace pending.
// Pod deletion: DELETE sets deletionTimestamp+grace (pods bound to a node); S on PodStatus.terminated calls delete with grace 0 + uid precondition -> removed at once.
// Namespace: T's namespace controller empties it and then api.update(caller, "namespaces", Some(Subresource::Finalize), "", name, ns without spec.finalizers).
// crate::cidr::Cidr { network(), prefix(), nth(u128) -> Option<IpAddr>, contains(ip), is_ipv4(), last_offset() } : FromStr + Display.
// Entry points expected: grpc::services(api: Api) -> tonic::service::Routes ; controllers::spawn(api: Api, controllers::Config, shutdown: tokio::sync::watch::Receiver<bool>) -> tokio::task::JoinHandle<()>
