//! Who may ask: the node itself.

use tonic::{Request, Status};

use crate::api::Caller;

/// The node that asks. Errors: `UNAUTHENTICATED` without a caller, `PERMISSION_DENIED` for anybody but a node.
pub(super) fn node<T>(request: &Request<T>) -> Result<String, Status> {
    let caller = request.extensions().get::<Caller>();
    let caller = caller.ok_or_else(|| Status::unauthenticated("no client certificate was presented"))?;
    let name = caller.node_name().ok_or_else(|| {
        Status::permission_denied(format!("{:?} is not a node: only system:node:NAME of system:nodes is", caller.user))
    })?;
    Ok(name.to_owned())
}

/// Refuses a node that names another one.
pub(super) fn named<T>(request: &Request<T>, name: &str) -> Result<(), Status> {
    let own = node(request)?;
    if own == name {
        return Ok(());
    }
    Err(Status::permission_denied(format!("node {own:?} may not act for node {name:?}")))
}
