//! POST, PUT and PATCH.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use skep_control_core::api::subresource::{decode_binding, decode_scale, scale};
use skep_control_core::api::{Decoded, PatchType, Status, Subresource, decode, meta};

use super::path::Place;
use super::{Call, Rest, accept, answer, body, document, reading};
use crate::api::{Object, WriteOptions};

/// Creates an object.
pub(super) async fn create(rest: &Rest, call: &Call, place: &Place, body: &Bytes) -> Result<Response<Body>, Status> {
    let resource = place.resource;
    let wanted = accept::negotiate(&call.parts.headers)?;
    let options = call.query.write("CreateOptions")?;
    let decoded = decode(resource, document(call, body)?, options.field_validation)?;
    if resource.namespaced && place.namespace.is_empty() {
        // `POST /api/v1/pods` names no namespace, and then there is none to write to.
        return Err(Status::bad_request("an empty namespace may not be set during creation"));
    }
    let object = rest.api().create(&call.caller, resource, &place.namespace, decoded.object, &options).await?;
    let mut response = reading::show(call, wanted, StatusCode::CREATED, &object)?;
    answer::warn(&mut response, &decoded.warnings);
    Ok(response)
}

/// Replaces an object, or a subresource of it.
pub(super) async fn update(
    rest: &Rest,
    call: &Call,
    place: &Place,
    name: &str,
    subresource: Option<Subresource>,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let resource = place.resource;
    let wanted = accept::negotiate(&call.parts.headers)?;
    let options = call.query.write("UpdateOptions")?;
    let document = document(call, body)?;
    let decoded = if subresource == Some(Subresource::Scale) {
        decode_scale(document, options.field_validation)?
    } else {
        decode(resource, document, options.field_validation)?
    };
    let Decoded { object, warnings } = decoded;
    if meta::name(&object).is_empty() {
        let text = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Status::bad_request(text));
    }
    let api = rest.api();
    let object = api.update(&call.caller, resource, subresource, &place.namespace, name, object, &options).await?;
    let mut response = show(call, wanted, subresource, &object)?;
    answer::warn(&mut response, &warnings);
    Ok(response)
}

/// Patches an object, or a subresource of it.
pub(super) async fn patch(
    rest: &Rest,
    call: &Call,
    place: &Place,
    name: &str,
    subresource: Option<Subresource>,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let resource = place.resource;
    let wanted = accept::negotiate(&call.parts.headers)?;
    let options = call.query.write("PatchOptions")?;
    let patch_type = PatchType::parse(body::media_type(&call.parts))?;
    let api = rest.api();
    let (object, warnings) =
        api.patch(&call.caller, resource, subresource, &place.namespace, name, patch_type, body, &options).await?;
    let mut response = show(call, wanted, subresource, &object)?;
    answer::warn(&mut response, &warnings);
    Ok(response)
}

fn show(
    call: &Call,
    wanted: accept::Wanted,
    subresource: Option<Subresource>,
    object: &Object,
) -> Result<Response<Body>, Status> {
    if subresource == Some(Subresource::Scale) {
        return answer::value(StatusCode::OK, wanted.format, &scale(object.resource(), &object.value()?)?);
    }
    reading::show(call, wanted, StatusCode::OK, object)
}

/// Binds a pod to a node.
pub(super) async fn bind(
    rest: &Rest,
    call: &Call,
    place: &Place,
    name: Option<&str>,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let WriteOptions { dry_run, field_validation } = call.query.write("CreateOptions")?;
    let binding = decode_binding(document(call, body)?, field_validation)?.object;
    let given = meta::name(&binding);
    let name = name.unwrap_or(given);
    if !given.is_empty() && given != name {
        let text = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Status::bad_request(text));
    }
    if !dry_run {
        rest.api().bind(&call.caller, &place.namespace, name, &binding).await?;
    }
    answer::value(StatusCode::CREATED, accept::Format::Json, &Status::created().to_value())
}
