//! Kubernetes REST.
//!
//! ```text
//! path --parse--> Target --+-- discovery, OpenAPI, version, health
//!                          +-- Objects(Place) --method--> get | list | watch | create | update | patch | delete
//!                                                            `--subresource--> status, scale, binding, log, ...
//! ```

mod accept;
mod answer;
mod body;
mod deleting;
mod documents;
mod log;
mod path;
mod query;
mod reading;
mod stream;
mod watching;
mod writing;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use skep_control_core::api::{Status, Subresource, Verb};
use tokio::sync::watch;

use crate::api::{Api, Caller};
use path::{Place, Target};
use query::Query;

pub use log::KubeletClient;

/// What the handlers share.
#[derive(Clone)]
pub struct Rest {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    kubelet: KubeletClient,
    /// HOST:PORT of this service, for discovery.
    endpoint: String,
    /// Becomes true when the service ends; watches end with it.
    shutdown: watch::Receiver<bool>,
}

impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rest").field("api", &self.inner.api).finish_non_exhaustive()
    }
}

impl Rest {
    /// Over the API; `endpoint` is the HOST:PORT that discovery names.
    pub fn new(api: Api, kubelet: KubeletClient, endpoint: String, shutdown: watch::Receiver<bool>) -> Self {
        Self { inner: Arc::new(Inner { api, kubelet, endpoint, shutdown }) }
    }

    /// The routes. Every request must carry a [`Caller`] as an extension.
    pub fn router(self) -> Router {
        Router::new().fallback(handle).with_state(self)
    }

    fn api(&self) -> &Api {
        &self.inner.api
    }
}

/// One request, its path and parameters read.
struct Call {
    caller: Caller,
    parts: Parts,
    query: Query,
}

async fn handle(State(rest): State<Rest>, request: Request<Body>) -> Response<Body> {
    let head = request.method() == Method::HEAD;
    let mut response = match respond(&rest, request).await {
        Ok(response) => response,
        Err(status) => answer::status(&status),
    };
    if head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn respond(rest: &Rest, request: Request<Body>) -> Result<Response<Body>, Status> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(Status::unauthorized)?;
    let target = path::parse(parts.uri.path());
    let query = Query::of(&parts.uri)?;
    let call = Call { caller, parts, query };
    match target {
        Target::Objects(place) => {
            authorize(&call, &place)?;
            let method = if call.parts.method == Method::HEAD { Method::GET } else { call.parts.method.clone() };
            objects(rest, &call, &place, &method, body).await
        }
        other => {
            if !call.caller.is_admin() {
                let verb = call.parts.method.as_str().to_ascii_lowercase();
                return Err(Status::forbidden_path(&call.caller.user, &verb, call.parts.uri.path()));
            }
            if !matches!(call.parts.method, Method::GET | Method::HEAD) {
                return Err(if other == Target::Unknown {
                    Status::unknown_path()
                } else {
                    Status::method_not_allowed()
                });
            }
            documents::respond(rest, &call, &other)
        }
    }
}

/// Administrators may do everything; everybody else nothing, here. Nodes have gRPC.
fn authorize(call: &Call, place: &Place) -> Result<(), Status> {
    if call.caller.is_admin() {
        return Ok(());
    }
    let resource = place.resource;
    let verb = verb(call, place);
    let plural = match &place.subresource {
        Some(subresource) => format!("{}/{subresource}", resource.plural),
        None => resource.plural.to_owned(),
    };
    let scope = match place.namespace.as_str() {
        "" => " at the cluster scope".to_owned(),
        namespace => format!(" in the namespace {namespace:?}"),
    };
    let text = format!(
        "User {:?} cannot {verb} resource {plural:?} in API group {:?}{scope}",
        call.caller.user, resource.group
    );
    Err(Status::forbidden(resource, place.name.as_deref().unwrap_or_default(), &text))
}

fn verb(call: &Call, place: &Place) -> &'static str {
    let verb = match (&call.parts.method, place.name.is_some()) {
        (&Method::POST, _) => Verb::Create,
        (&Method::PUT, _) => Verb::Update,
        (&Method::PATCH, _) => Verb::Patch,
        (&Method::DELETE, true) => Verb::Delete,
        (&Method::DELETE, false) => Verb::DeleteCollection,
        (_, _) if place.watch || call.query.flag("watch") => Verb::Watch,
        (_, true) => Verb::Get,
        (_, false) => Verb::List,
    };
    verb.as_str()
}

async fn objects(
    rest: &Rest,
    call: &Call,
    place: &Place,
    method: &Method,
    body: Body,
) -> Result<Response<Body>, Status> {
    let resource = place.resource;
    let subresource = match &place.subresource {
        Some(segment) => Some(resource.subresource(segment).ok_or_else(Status::unknown_path)?),
        None => None,
    };
    let served = |verb: Verb| match subresource {
        Some(subresource) if subresource.verbs().contains(&verb) => Ok(()),
        None if resource.serves(verb) => Ok(()),
        _ => Err(Status::method_not_allowed()),
    };
    let watch = place.watch || call.query.flag("watch");
    match (method, place.name.as_deref()) {
        (&Method::GET, _) if watch && subresource.is_none() => {
            served(Verb::Watch)?;
            watching::watch(rest, call, place).await
        }
        (&Method::GET, Some(name)) => {
            served(Verb::Get)?;
            match subresource {
                Some(Subresource::Log) => log::log(rest, call, place, name).await,
                other => reading::get(rest, call, place, name, other).await,
            }
        }
        (&Method::GET, None) => {
            served(Verb::List)?;
            reading::list(rest, call, place).await
        }
        (&Method::POST, None) => {
            served(Verb::Create)?;
            let body = body::read(&call.parts, body).await?;
            writing::create(rest, call, place, &body).await
        }
        (&Method::POST, Some(name)) => {
            served(Verb::Create)?;
            let body = body::read(&call.parts, body).await?;
            match subresource {
                Some(Subresource::Binding) => writing::bind(rest, call, place, Some(name), &body).await,
                Some(Subresource::Eviction) => deleting::evict(rest, call, place, name, &body).await,
                _ => Err(Status::method_not_allowed()),
            }
        }
        (&Method::PUT, Some(name)) => {
            served(Verb::Update)?;
            let body = body::read(&call.parts, body).await?;
            writing::update(rest, call, place, name, subresource, &body).await
        }
        (&Method::PATCH, Some(name)) => {
            served(Verb::Patch)?;
            let body = body::read(&call.parts, body).await?;
            writing::patch(rest, call, place, name, subresource, &body).await
        }
        (&Method::DELETE, Some(name)) => {
            served(Verb::Delete)?;
            let body = body::read(&call.parts, body).await?;
            deleting::delete(rest, call, place, name, &body).await
        }
        (&Method::DELETE, None) => {
            served(Verb::DeleteCollection)?;
            let body = body::read(&call.parts, body).await?;
            deleting::delete_collection(rest, call, place, &body).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Parses the body of a request that writes.
fn document(call: &Call, body: &Bytes) -> Result<skep_control_core::api::Document, Status> {
    body::parse(body::media_type(&call.parts), body)
}
