//! GET of one object and of many.

use axum::body::Body;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use skep_control_core::api::subresource::scale;
use skep_control_core::api::{IncludeObject, Status, Subresource, partial, partial_list, table};

use super::accept::{self, Form, Format, Wanted};
use super::path::Place;
use super::{Call, Rest, answer, stream};
use crate::api::{List, Object};

/// One object.
pub(super) async fn get(
    rest: &Rest,
    call: &Call,
    place: &Place,
    name: &str,
    subresource: Option<Subresource>,
) -> Result<Response<Body>, Status> {
    let wanted = accept::negotiate(&call.parts.headers)?;
    if let Some(least) = call.query.revision()? {
        let current = rest.api().revision();
        if least > current {
            return Err(Status::future_revision(least, current));
        }
    }
    let object = rest.api().get(place.resource, &place.namespace, name).await?;
    if subresource == Some(Subresource::Scale) {
        return answer::value(StatusCode::OK, wanted.format, &scale(place.resource, &object.value()?)?);
    }
    show(call, wanted, StatusCode::OK, &object)
}

/// One object in the form that is wanted.
pub(super) fn show(call: &Call, wanted: Wanted, code: StatusCode, object: &Object) -> Result<Response<Body>, Status> {
    match wanted.form {
        Form::Object => answer::json(code, wanted.format, object.json()),
        Form::Partial => answer::value(code, wanted.format, &partial(&object.value()?)),
        Form::Table => {
            let include = IncludeObject::parse(call.query.get("includeObject"))?;
            let metadata = json!({"resourceVersion": object.revision.to_string()});
            let rows = [object.value()?];
            let table = table(object.resource(), &rows, metadata, include, true, Timestamp::now());
            answer::value(code, wanted.format, &table)
        }
    }
}

/// Many objects.
pub(super) async fn list(rest: &Rest, call: &Call, place: &Place) -> Result<Response<Body>, Status> {
    let wanted = accept::negotiate(&call.parts.headers)?;
    let options = call.query.list(place.resource)?;
    let list = rest.api().list(place.resource, &place.namespace, &options).await?;
    match wanted.form {
        Form::Object if wanted.format == Format::Json => Ok(stream::list(place.resource, list)),
        form => {
            let metadata = metadata(&list);
            let objects = list.items.iter().map(Object::value).collect::<Result<Vec<Value>, Status>>()?;
            let value = match form {
                Form::Object => json!({
                    "kind": place.resource.list_kind(), "apiVersion": place.resource.api_version(),
                    "metadata": metadata, "items": objects,
                }),
                Form::Partial => partial_list(&objects, metadata),
                Form::Table => {
                    let include = IncludeObject::parse(call.query.get("includeObject"))?;
                    table(place.resource, &objects, metadata, include, true, Timestamp::now())
                }
            };
            answer::value(StatusCode::OK, wanted.format, &value)
        }
    }
}

/// A list's own metadata.
pub(super) fn metadata(list: &List) -> Value {
    let mut metadata = json!({"resourceVersion": list.revision.to_string()});
    if let Some(token) = &list.continue_token {
        metadata["continue"] = token.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}
