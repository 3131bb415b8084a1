//! One task a pod: feeds its machine, and has its commands carried out.

use std::future::pending;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use skep_agent_core::pods::{Command, Done, Input, Machine, Objects, PodEvent, Report, Reread, VolumePlan};
use skep_proto::node::v1::Event;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::context::Context;
use super::desired::PodReport;
use super::execute::Executor;
use super::reader::Snapshot;
use super::runtime::RuntimeError;

/// How long to wait before a runtime that did not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What a worker hears.
pub(super) enum Message {
    /// Something about the pod's object, or what it refers to.
    Input(Input),
    /// What the runtime holds of the pod.
    Observed(Snapshot),
}

/// The status that a worker has reported last; `None` before the first report.
pub(super) type LastStatus = Arc<RwLock<Option<Arc<PodStatus>>>>;

/// Something that a worker started has ended.
enum Ended {
    /// A command, with what the runtime holds after it if it may have changed that.
    Command(Option<Done>, Option<Result<Snapshot, RuntimeError>>),
    /// A look at the runtime.
    Read(Result<Snapshot, RuntimeError>),
}

/// A pod's task.
pub(super) struct Worker {
    context: Arc<Context>,
    uid: String,
    pod: Arc<Pod>,
    machine: Machine,
    inbox: mpsc::UnboundedReceiver<Message>,
    tasks: JoinSet<Ended>,
    /// What was seen before is older than something that was done.
    valid_from: Instant,
    /// The runtime did not answer and has to be asked again.
    stale: bool,
    volumes: Arc<VolumePlan>,
    writing: Option<VolumePlan>,
    last_status: LastStatus,
}

impl Worker {
    pub(super) fn new(
        context: Arc<Context>,
        uid: String,
        pod: Arc<Pod>,
        objects: Objects,
        inbox: mpsc::UnboundedReceiver<Message>,
        last_status: LastStatus,
    ) -> Self {
        let machine = Machine::new(Arc::clone(&pod), objects, context.node());
        Self {
            context,
            uid,
            pod,
            machine,
            inbox,
            tasks: JoinSet::new(),
            valid_from: Instant::now(),
            stale: false,
            volumes: Arc::default(),
            writing: None,
            last_status,
        }
    }

    /// Runs until nothing is left of the pod, or nobody is interested any more.
    pub(super) async fn run(mut self) {
        self.read(Duration::ZERO);
        let mut wake: Option<Timestamp> = None;
        loop {
            let input = tokio::select! {
                message = self.inbox.recv() => match message {
                    None => return,
                    Some(Message::Input(Input::Pod(pod))) => {
                        self.pod = Arc::clone(&pod);
                        Some(Input::Pod(pod))
                    }
                    Some(Message::Input(input)) => Some(input),
                    Some(Message::Observed(snapshot)) => self.observed(snapshot),
                },
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                () = sleep_until(wake) => Some(Input::Tick),
            };
            let Some(input) = input else { continue };
            let step = self.machine.handle(input, Timestamp::now());
            wake = step.wake;
            for command in step.commands {
                self.carry_out(command).await;
            }
            if step.finished {
                return;
            }
        }
    }

    async fn carry_out(&mut self, command: Command) {
        tracing::debug!(uid = %self.uid, ?command);
        match command {
            Command::Report(report) => self.report(*report).await,
            Command::Event(event) => self.event(event).await,
            command => {
                if let Command::WriteVolumes(plan) = &command {
                    self.writing = Some(plan.clone());
                }
                let (context, uid) = (Arc::clone(&self.context), self.uid.clone());
                let executor =
                    Executor { context: Arc::clone(&context), uid: uid.clone(), volumes: Arc::clone(&self.volumes) };
                self.tasks.spawn(async move {
                    match executor.execute(command).await {
                        Some((done, true)) => Ended::Command(Some(done), Some(context.reader.read(&uid).await)),
                        Some((done, false)) => Ended::Command(Some(done), None),
                        None => Ended::Command(None, None),
                    }
                });
            }
        }
    }

    fn ended(&mut self, ended: Result<Ended, tokio::task::JoinError>) -> Option<Input> {
        match ended {
            Ok(Ended::Command(done, read)) => {
                let done = done?;
                if let Done::VolumesWritten(Ok(())) = &done {
                    self.volumes = Arc::new(self.writing.take().unwrap_or_default());
                }
                let reread = match read {
                    None => Reread::Unneeded,
                    Some(Ok(snapshot)) if snapshot.at < self.valid_from => Reread::Unneeded,
                    Some(Ok(snapshot)) => {
                        self.valid_from = snapshot.at;
                        self.stale = false;
                        Reread::Holds(snapshot.observed)
                    }
                    Some(Err(error)) => {
                        tracing::warn!(uid = %self.uid, %error, "cannot see what a command did");
                        self.valid_from = Instant::now();
                        self.stale = true;
                        self.read(ASK_AGAIN);
                        Reread::Failed
                    }
                };
                Some(Input::Done(done, reread))
            }
            Ok(Ended::Read(Ok(snapshot))) => self.observed(snapshot),
            Ok(Ended::Read(Err(error))) => {
                tracing::warn!(uid = %self.uid, %error, "cannot see what the runtime holds of a pod");
                self.read(ASK_AGAIN);
                None
            }
            Err(error) => {
                // A task that died has not said what it did.
                tracing::error!(uid = %self.uid, %error, "a command of a pod was lost");
                None
            }
        }
    }

    /// What was seen before the last change is no news.
    fn observed(&mut self, snapshot: Snapshot) -> Option<Input> {
        if snapshot.at < self.valid_from {
            if self.stale {
                self.read(Duration::ZERO);
            }
            return None;
        }
        self.valid_from = snapshot.at;
        self.stale = false;
        Some(Input::Observed(snapshot.observed))
    }

    fn read(&mut self, delay: Duration) {
        let (context, uid) = (Arc::clone(&self.context), self.uid.clone());
        self.tasks.spawn(async move {
            tokio::time::sleep(delay).await;
            Ended::Read(context.reader.read(&uid).await)
        });
    }

    async fn report(&self, report: Report) {
        *self.last_status.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(report.status.clone()));
        let metadata = &self.pod.metadata;
        let report = PodReport {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: self.uid.clone(),
            status: report.status,
            terminated: report.terminated,
        };
        if self.context.reports.send(report).await.is_err() {
            tracing::debug!(uid = %self.uid, "nobody takes status reports any more");
        }
    }

    async fn event(&self, event: PodEvent) {
        let metadata = &self.pod.metadata;
        let event = Event {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: self.uid.clone(),
            field_path: event.field_path,
            r#type: if event.warning { "Warning" } else { "Normal" }.to_owned(),
            reason: event.reason.to_owned(),
            message: event.message,
            component: "skep-agent".to_owned(),
        };
        if self.context.events.send(event).await.is_err() {
            tracing::debug!(uid = %self.uid, "nobody takes events any more");
        }
    }
}

async fn sleep_until(wake: Option<Timestamp>) {
    match wake {
        Some(wake) => {
            let left = Duration::try_from(wake.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO);
            // A clock that is set back must not make a pod sleep through.
            tokio::time::sleep(left.min(Duration::from_secs(60))).await;
        }
        None => pending().await,
    }
}
