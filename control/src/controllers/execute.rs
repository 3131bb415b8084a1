//! Executes actions through the API.

use serde_json::json;
use skep_control_core::api::delete::Preconditions;
use skep_control_core::controllers::{Action, Key, Kind, Note, Object, Report, Write};
use tokio::task::JoinSet;

use super::feed::storage_name;
use super::notes::Notebook;
use crate::api::{Api, Caller, DeleteOptions, PatchType, Status, Subresource, WriteOptions};

/// Executes actions for controllers.
#[derive(Clone, Debug)]
pub(super) struct Executor {
    api: Api,
    notebook: Notebook,
}

impl Executor {
    pub(super) fn new(api: Api, notebook: Notebook) -> Self {
        Self { api, notebook }
    }

    /// Executes actions in order until one fails. A run of creations (or deletions) of pods is executed in growing groups at
    /// once: 1, 2, 4, and so on, so that a quota or a refusal is met by one request and not by hundreds.
    pub(super) async fn execute(&self, component: &'static str, actions: Vec<Action>) -> Report {
        let mut report = Report::default();
        let mut actions = actions.into_iter().peekable();
        let mut group = 1;
        while let Some(first) = actions.next() {
            let kind = bulk(&first);
            let mut together = vec![first];
            if kind.is_some() {
                while together.len() < group
                    && let Some(next) = actions.next_if(|next| bulk(next) == kind)
                {
                    together.push(next);
                }
                group *= 2;
            } else {
                group = 1;
            }
            let mut running = JoinSet::new();
            for action in together {
                let this = self.clone();
                running.spawn(async move { this.act(component, action).await });
            }
            while let Some(done) = running.join_next().await {
                match done {
                    Ok(Ok(revision)) => report.revision = report.revision.max(revision),
                    Ok(Err(_)) => report.failed = true,
                    Err(error) => {
                        tracing::error!(component, %error, "a write ended early");
                        report.failed = true;
                    }
                }
            }
            if report.failed {
                break;
            }
        }
        report
    }

    async fn act(&self, component: &'static str, action: Action) -> Result<u64, Status> {
        let verb = action.write.verb();
        let target = action.write.target();
        match write(&self.api, component, action.write).await {
            Ok(revision) => {
                if let Some(note) = action.done {
                    self.notebook.record(component, note);
                }
                Ok(revision)
            }
            Err(status) => {
                let target = target.map(|key| key.to_string()).unwrap_or_default();
                if stale(&status) {
                    tracing::debug!(component, verb, target, error = %status.message, "will look again");
                } else {
                    tracing::warn!(component, verb, target, error = %status.message, "a write was refused");
                    if let Some(note) = action.failed {
                        let message = format!("{}: {}", note.message, status.message);
                        self.notebook.record(component, Note { message, ..note });
                    }
                }
                Err(status)
            }
        }
    }
}

/// Whether the refusal only says that the index was behind.
fn stale(status: &Status) -> bool {
    let leaving = status
        .details
        .as_ref()
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason.as_str() == "NamespaceTerminating"));
    leaving || status.is_conflict() || status.is_not_found() || status.is_already_exists()
}

/// What a write of pods that can go together with others like it does.
fn bulk(action: &Action) -> Option<&'static str> {
    match &action.write {
        Write::Create(object) if object.kind() == Kind::Pod => Some("create"),
        Write::Delete { target, .. } if target.kind == Kind::Pod => Some("delete"),
        _ => None,
    }
}

/// Executes one write; gives the revision at which it shows (0 when nothing was to be written).
pub(super) async fn write(api: &Api, component: &str, write: Write) -> Result<u64, Status> {
    let caller = Caller::system(component);
    let options = WriteOptions::default();
    match write {
        Write::Nothing => Ok(0),
        Write::Create(object) => {
            let key = object.key();
            let created =
                api.create(&caller, resource(&key).as_str(), &key.namespace, json_of(&object)?, &options).await?;
            Ok(created.revision)
        }
        Write::Update(object) => replace(api, &caller, None, &object).await,
        Write::UpdateStatus(object) => replace(api, &caller, Some(Subresource::Status), &object).await,
        Write::Finalize(object) => replace(api, &caller, Some(Subresource::Finalize), &object).await,
        Write::Patch { target, subresource, patch } => {
            let subresource = subresource.map(|_| Subresource::Status);
            let body = serde_json::to_vec(&patch).map_err(Status::internal)?;
            let (ns, name) = (&target.namespace, &target.name);
            let patched = api
                .patch(&caller, resource(&target).as_str(), subresource, ns, name, PatchType::Merge, &body, &options)
                .await?;
            Ok(patched.0.revision)
        }
        Write::Delete { target, uid, grace_seconds, propagation } => {
            let delete = DeleteOptions {
                grace_period_seconds: grace_seconds,
                preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
                propagation_policy: Some(propagation.name().to_owned()),
                ..DeleteOptions::default()
            };
            let deleted =
                api.delete(&caller, resource(&target).as_str(), &target.namespace, &target.name, &delete).await;
            match deleted {
                Ok(deleted) => Ok(deleted.object.revision),
                // Gone already is what was wanted.
                Err(status) if status.is_not_found() => Ok(0),
                Err(status) => Err(status),
            }
        }
        Write::Bind { pod, uid, node } => {
            let binding = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            Ok(api.bind(&caller, &pod.namespace, &pod.name, &binding).await?.revision)
        }
    }
}

fn resource(key: &Key) -> String {
    storage_name(key.kind)
}

fn json_of(object: &Object) -> Result<serde_json::Value, Status> {
    object.to_json().map_err(Status::internal)
}

async fn replace(api: &Api, caller: &Caller, subresource: Option<Subresource>, object: &Object) -> Result<u64, Status> {
    let key = object.key();
    let (ns, name) = (&key.namespace, &key.name);
    let options = WriteOptions::default();
    let written =
        api.update(caller, resource(&key).as_str(), subresource, ns, name, json_of(object)?, &options).await?;
    Ok(written.revision)
}
