//! `GET /containerLogs/{namespace}/{pod}/{container}`.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::error::Error;
use super::log_file;
use super::options::LogOptions;
use crate::pods::Pods;

/// Pieces that are read ahead of a slow client.
const READ_AHEAD: usize = 16;

pub(super) async fn get(
    State(pods): State<Pods>,
    Path((namespace, name, container)): Path<(String, String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Error> {
    let options = LogOptions::parse(&query, Timestamp::now())?;
    let pod = pods.pod(&namespace, &name).ok_or_else(|| Error::NoPod(name.clone()))?;
    if !has_container(&pod, &container) {
        return Err(Error::NoContainer { pod: name, container });
    }
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let status = pods.status(&uid);
    let attempt = attempt(status.as_deref(), &name, &container, options.previous)?;
    let path: PathBuf = pods.log_directory(&pod).join(&container).join(format!("{attempt}.log"));
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(READ_AHEAD);
    let runs = move || {
        let status = pods.status(&uid);
        let status = status.as_deref().and_then(|status| container_status(status, &container));
        status.is_some_and(|status| {
            let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
            running && attempt_of(status) == attempt
        })
    };
    tokio::spawn(async move {
        if let Err(error) = log_file::copy(&path, &options, runs, &sender).await
            // A client that has gone away does not need to hear of it.
            && sender.send(Err(error)).await.is_err()
        {
            tracing::debug!("the reader of a log has gone away");
        }
    });
    let body = Body::from_stream(ReceiverStream::new(receiver));
    Ok(([(CONTENT_TYPE, "text/plain")], body).into_response())
}

fn has_container(pod: &Pod, name: &str) -> bool {
    let spec = pod.spec.as_ref();
    let containers =
        spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    containers.into_iter().any(|container| container.name == name)
}

fn container_status<'a>(status: &'a PodStatus, container: &str) -> Option<&'a ContainerStatus> {
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.into_iter().find(|status| status.name == container)
}

fn attempt_of(status: &ContainerStatus) -> u32 {
    u32::try_from(status.restart_count).unwrap_or(0)
}

/// Which start of the container is asked for.
fn attempt(status: Option<&PodStatus>, pod: &str, container: &str, previous: bool) -> Result<u32, Error> {
    let (pod, container) = (pod.to_owned(), container.to_owned());
    let Some(status) = status.and_then(|status| container_status(status, &container)) else {
        return Err(Error::Waiting { pod, container, reason: "ContainerCreating".to_owned() });
    };
    let current = attempt_of(status);
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let ended_before = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    match (waiting, previous) {
        (None, false) => Ok(current),
        (None, true) if ended_before && current > 0 => Ok(current - 1),
        // What it waits for is to be started again.
        (Some(_), _) if ended_before => Ok(current),
        (_, true) => Err(Error::NoPrevious { pod, container }),
        (Some(waiting), false) => {
            let reason = match waiting.reason.as_deref() {
                Some("ErrImagePull") => "image can't be pulled",
                Some("ImagePullBackOff") => "trying and failing to pull image",
                Some(reason) => reason,
                None => "ContainerCreating",
            };
            Err(Error::Waiting { pod, container, reason: reason.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(state: Value, last_state: Value, restarts: i32, previous: bool) -> Result<u32, String> {
        let container = json!({"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
                               "state": state, "lastState": last_state});
        let status = serde_json::from_value(json!({"containerStatuses": [container]})).unwrap();
        attempt(Some(&status), "web", "app", previous).map_err(|error| error.to_string())
    }

    #[test]
    fn which_start() {
        let running = json!({"running": {}});
        let ended = json!({"terminated": {"exitCode": 1}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let failed = |text: &str| Err(text.to_owned());
        let no_previous = failed("previous terminated container \"app\" in pod \"web\" not found");
        let table = [
            (of(running.clone(), json!({}), 0, false), Ok(0)),
            (of(running.clone(), ended.clone(), 3, false), Ok(3)),
            (of(running.clone(), ended.clone(), 3, true), Ok(2)),
            (of(running, json!({}), 0, true), no_previous.clone()),
            (of(ended.clone(), json!({}), 0, false), Ok(0)),
            (of(waiting("CrashLoopBackOff"), ended.clone(), 3, false), Ok(3)),
            (of(waiting("CrashLoopBackOff"), ended, 3, true), Ok(3)),
            (of(waiting("ContainerCreating"), json!({}), 0, true), no_previous),
            (
                of(waiting("ContainerCreating"), json!({}), 0, false),
                failed("container \"app\" in pod \"web\" is waiting to start: ContainerCreating"),
            ),
            (
                of(waiting("ImagePullBackOff"), json!({}), 0, false),
                failed("container \"app\" in pod \"web\" is waiting to start: trying and failing to pull image"),
            ),
        ];
        for (found, expected) in table {
            assert_eq!(found, expected);
        }
    }
}
