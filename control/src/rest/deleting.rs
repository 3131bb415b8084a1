//! DELETE, and eviction.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use skep_control_core::api::{DeleteOptions, Status, meta};

use super::path::Place;
use super::{Call, Rest, accept, answer, document, reading, stream};
use crate::api::{Deleted, List, Object};

/// The options of a delete: from the body, else from the parameters.
fn options(call: &Call, body: &Bytes) -> Result<DeleteOptions, Status> {
    let mut options = DeleteOptions::default();
    if !body.is_empty() {
        let value = document(call, body)?.value;
        if let Some(kind) = value.get("kind").and_then(Value::as_str)
            && kind != "DeleteOptions"
        {
            return Err(Status::bad_request(format!("the body of a delete is DeleteOptions, not {kind}")));
        }
        options = from_value(value)?;
    }
    options.grace_period_seconds = options.grace_period_seconds.or(call.query.number("gracePeriodSeconds")?);
    if options.propagation_policy.is_none() {
        options.propagation_policy = call.query.text("propagationPolicy").map(str::to_owned);
    }
    if options.orphan_dependents.is_none() && call.query.get("orphanDependents").is_some() {
        options.orphan_dependents = Some(call.query.flag("orphanDependents"));
    }
    if call.query.dry_run("DeleteOptions")? {
        options.dry_run = vec!["All".to_owned()];
    }
    Ok(options)
}

fn from_value(value: Value) -> Result<DeleteOptions, Status> {
    serde_json::from_value(value).map_err(|error| Status::bad_request(format!("DeleteOptions: {error}")))
}

/// Deletes an object.
pub(super) async fn delete(
    rest: &Rest,
    call: &Call,
    place: &Place,
    name: &str,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let wanted = accept::negotiate(&call.parts.headers)?;
    let options = options(call, body)?;
    let deleted = rest.api().delete(&call.caller, place.resource, &place.namespace, name, &options).await?;
    let Deleted { object, removed } = deleted;
    if removed && !place.resource.strategy.returns_deleted {
        let value = object.value()?;
        let status = Status::deleted(place.resource, name, meta::uid(&value));
        return answer::value(StatusCode::OK, wanted.format, &status.to_value());
    }
    reading::show(call, wanted, StatusCode::OK, &object)
}

/// Deletes every object that the selectors want, one after the other.
pub(super) async fn delete_collection(
    rest: &Rest,
    call: &Call,
    place: &Place,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let options = options(call, body)?;
    let mut selection = call.query.selection(place.resource)?;
    selection.limit = usize::try_from(call.query.number("limit")?.unwrap_or(0)).unwrap_or(0);
    let api = rest.api();
    let List { items, .. } = api.list(place.resource, &place.namespace, &selection).await?;
    let mut deleted: Vec<Object> = Vec::with_capacity(items.len());
    for object in items {
        match api.delete(&call.caller, place.resource, object.namespace(), object.name(), &options).await {
            Ok(result) => deleted.push(result.object),
            // Somebody else was faster.
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
    }
    let list = List { revision: api.revision(), items: deleted, continue_token: None, remaining: None };
    Ok(stream::list(place.resource, list))
}

/// Deletes a pod on behalf of somebody who empties a node.
pub(super) async fn evict(
    rest: &Rest,
    call: &Call,
    place: &Place,
    name: &str,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let mut value = document(call, body)?.value;
    let given = meta::name(&value);
    if !given.is_empty() && given != name {
        let text = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Status::bad_request(text));
    }
    let mut options = match value.get_mut("deleteOptions").map(Value::take) {
        None | Some(Value::Null) => DeleteOptions::default(),
        Some(options) => from_value(options)?,
    };
    if call.query.dry_run("CreateOptions")? {
        options.dry_run = vec!["All".to_owned()];
    }
    rest.api().delete(&call.caller, place.resource, &place.namespace, name, &options).await?;
    answer::value(StatusCode::CREATED, accept::Format::Json, &Status::created().to_value())
}
