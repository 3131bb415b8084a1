// Signatures of control::api (engineer R), for S (gRPC) and T (controllers). `use crate::api::{...}`. Real code lands in control/src/api/**.
// `Status` is skep_control_core::api::Status (I). `resource` strings are "pods", "nodes", "deployments.apps", "endpointslices.discovery.k8s.io",
// "leases.coordination.k8s.io", "networkpolicies.networking.k8s.io" ... = the segment of the store key; unknown = 404 Status.
// `ns` is "" for cluster-scoped resources, and in list/watch also for "every namespace". Api is Clone + Send + Sync + 'static (an Arc).

pub struct Caller { pub user: String, pub groups: Vec<String> }          // Clone, Debug, Eq
impl Caller {
    pub fn system(component: &str) -> Caller;      // in-process: user "system:<component>" groups [system:masters]; Caller::system("deployment-controller")
    pub fn node_name(&self) -> Option<&str>;        // Some for CN=system:node:NAME with group system:nodes
    pub fn is_admin(&self) -> bool;                 // in system:masters
}

/// One object at one revision; cheap to clone (shared bytes), parsed only when asked.
pub struct Object { pub revision: u64, /* private: resource, key, bytes */ }
impl Object {
    pub fn namespace(&self) -> &str;                // from the key, no parsing
    pub fn name(&self) -> &str;
    pub fn json(&self) -> Bytes;                    // whole JSON with metadata.resourceVersion spliced in; no parsing
    pub fn value(&self) -> Result<serde_json::Value, Status>;          // with resourceVersion
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, Status>;    // k8s_openapi type, with resourceVersion
}

pub struct List { pub revision: u64, pub items: Vec<Object>, pub continue_token: Option<String>, pub remaining: Option<u64> }

#[derive(Default)]
pub struct ListOptions { pub label_selector: .., pub field_selector: .., pub limit: usize, pub continue_token: Option<String>,
                         pub revision: Option<u64> /* exact */ , .. }

#[derive(Default, Clone)]
pub struct WriteOptions { pub dry_run: bool, pub field_validation: .., pub field_manager: Option<String> }   // default: what controllers want

#[derive(Default, Clone)]
pub struct DeleteOptions { pub grace_period_seconds: Option<i64>, pub propagation: Option<Propagation>, pub uid: Option<String>,
                           pub resource_version: Option<String>, pub dry_run: bool }
pub enum Propagation { Orphan, Background, Foreground }

pub enum Patch { Json(Value), Merge(Value), Strategic(Value) }

pub struct WatchEvent { pub kind: WatchKind /* Added | Modified | Deleted */, pub object: Object /* for Deleted: last state, revision of the deletion */,
                        pub previous: Option<Object>, pub revision: u64 }
pub enum WatchItem { Events(u64 /* revision */, Vec<WatchEvent> /* all of that revision in the range */), Progress(u64) }
pub struct Watch; impl Watch { pub async fn next(&mut self) -> Result<WatchItem, Status>; }   // 410 Expired Status when lagged/compacted: list again. Cancel-safe.

impl Api {
    pub async fn get(&self, resource: &str, ns: &str, name: &str) -> Result<Object, Status>;                // 404 NotFound
    pub async fn list(&self, resource: &str, ns: &str, options: &ListOptions) -> Result<List, Status>;
    pub async fn watch(&self, resource: &str, ns: &str, after: u64) -> Result<Watch, Status>;              // events with revision > after (list.revision)
    pub async fn watch_all(&self, after: u64) -> Result<Watch, Status>;                                     // every resource; Object::resource() tells; one ordered stream
    pub async fn create(&self, caller: &Caller, resource: &str, ns: &str, object: Value, options: &WriteOptions) -> Result<Object, Status>;
    pub async fn update(&self, caller: &Caller, resource: &str, subresource: &str /* "" | "status" */, ns: &str, name: &str, object: Value, options: &WriteOptions)
        -> Result<Object, Status>;                                                                          // optimistic when object has resourceVersion
    /// Read, change, write, again on conflict. `change` may run several times; Ok(false) = leave as it is (returns current). Best for status writes.
    pub async fn modify(&self, caller: &Caller, resource: &str, subresource: &str, ns: &str, name: &str,
        change: impl FnMut(&mut Value) -> Result<bool, Status> + Send) -> Result<Object, Status>;
    pub async fn patch(&self, caller: &Caller, resource: &str, subresource: &str, ns: &str, name: &str, patch: &Patch, options: &WriteOptions) -> Result<Object, Status>;
    pub async fn delete(&self, caller: &Caller, resource: &str, ns: &str, name: &str, options: &DeleteOptions) -> Result<Deleted, Status>;
    pub async fn bind(&self, caller: &Caller, ns: &str, pod: &str, uid: Option<&str>, node: &str) -> Result<Object, Status>;   // 409 when already bound
    pub fn revision(&self) -> u64;                                                                          // current store revision
    pub fn config(&self) -> &ApiConfig;                                                                     // service_cidrs, cluster_cidrs: Vec<String>, lease_duration_seconds: u32
    pub fn store(&self) -> &Backend;                                                                        // raw store: for S (node pod CIDR ranges, other txn keys under /registry/ranges/)

    // Typed sugar; K: k8s_openapi::Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned
    pub async fn read<K>(&self, ns: &str, name: &str) -> Result<K, Status>;
    pub async fn read_all<K>(&self, ns: &str) -> Result<(u64, Vec<K>), Status>;
    pub async fn make<K>(&self, caller: &Caller, object: &K) -> Result<K, Status>;                          // ns from metadata.namespace
    pub async fn replace<K>(&self, caller: &Caller, object: &K) -> Result<K, Status>;                       // optimistic (metadata.resourceVersion)
    pub async fn replace_status<K>(&self, caller: &Caller, object: &K) -> Result<K, Status>;
}
/// Deleted { object: Object, removed: bool }   removed=false: only marked (deletionTimestamp), finalizers or grace pending.
// Pod deletion: DELETE sets deletionTimestamp+grace (pods bound to a node); S on PodStatus.terminated calls delete with grace 0 + uid precondition -> removed at once.
// Finalizers: removing the last finalizer by update of an object with deletionTimestamp removes it. Namespace: finalizer "kubernetes" in spec.finalizers;
//  T's namespace controller empties it and then calls api.update(.., "namespaces", "finalize", "", name, ns without spec.finalizers).
