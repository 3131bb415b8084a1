use std::collections::BTreeMap;
use std::time::Duration;

use skep_proto::node::v1::pod_status_result::Outcome;
use skep_proto::node::v1::{PodStatus, PodStatusResult, ReportPodStatusRequest};
use tokio::sync::mpsc;
use tracing::{error, warn};

use super::session::status_text;
use super::{Backoff, Upstream, request};
use crate::pods::{PodReport, Pods};

/// Pods in one request at most.
const BATCH: usize = 100;

/// Who wants to know what became of a report.
pub trait ReportSink: Send + Sync + 'static {
    /// The control service knows no pod with this uid.
    fn gone(&self, uid: &str);
}

impl ReportSink for Pods {
    fn gone(&self, uid: &str) {
        Self::gone(self, uid);
    }
}

/// Sends pod statuses, the newest of each pod, until each is acknowledged. Ends when all senders of `reports` are gone.
pub async fn report_pods(upstream: Upstream, mut reports: mpsc::Receiver<PodReport>, sink: impl ReportSink) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    let mut pending = Pending::default();
    loop {
        if pending.is_empty() {
            match reports.recv().await {
                Some(report) => pending.add(report),
                None => return,
            }
        }
        while let Ok(report) = reports.try_recv() {
            pending.add(report);
        }
        let batch = pending.take(BATCH);
        let statuses = batch.iter().map(|(status, _)| status.clone()).collect();
        match upstream.node_service().report_pod_status(request(ReportPodStatusRequest { statuses })).await {
            Ok(response) => {
                backoff.reset();
                let results = response.into_inner().results;
                if results.len() < batch.len() {
                    warn!(
                        sent = batch.len(),
                        answered = results.len(),
                        "pod statuses without an answer are sent again"
                    );
                }
                let mut results = results.into_iter();
                for sent in batch {
                    match results.next() {
                        Some(result) => settle(&sent.0, &result, &sink),
                        None => pending.put_back(sent),
                    }
                }
            }
            Err(status) => {
                batch.into_iter().for_each(|sent| pending.put_back(sent));
                let wait = backoff.next_wait();
                warn!(problem = status_text(&status), pods = pending.len(), retry_in = ?wait, "pod statuses not reported");
                tokio::time::sleep(wait).await;
            }
        }
    }
}

fn settle(sent: &PodStatus, result: &PodStatusResult, sink: &impl ReportSink) {
    let pod = || format!("{}/{}", sent.namespace, sent.name);
    match result.outcome() {
        Outcome::Ok => {}
        Outcome::Gone => sink.gone(&sent.uid),
        Outcome::Invalid | Outcome::Unspecified => {
            error!(pod = pod(), problem = result.message, "the control service refused a pod status");
        }
    }
}

/// Statuses to be sent, by uid, in the order in which the pods first had something to say.
#[derive(Debug, Default)]
struct Pending {
    statuses: BTreeMap<u64, PodStatus>,
    positions: BTreeMap<String, u64>,
    next: u64,
}

type Sent = (PodStatus, u64);

impl Pending {
    fn is_empty(&self) -> bool {
        self.statuses.is_empty()
    }

    fn len(&self) -> usize {
        self.statuses.len()
    }

    fn add(&mut self, report: PodReport) {
        let status = match serde_json::to_vec(&report.status) {
            Ok(status) => status,
            Err(error) => {
                error!(pod = report.name, %error, "pod status cannot be written as JSON");
                return;
            }
        };
        let PodReport { namespace, name, uid, terminated, .. } = report;
        let mut status = PodStatus { namespace, name, uid, status, terminated };
        let position = *self.positions.entry(status.uid.clone()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        if let Some(older) = self.statuses.get(&position) {
            // A pod that has ended does not begin again.
            status.terminated |= older.terminated;
        }
        self.statuses.insert(position, status);
    }

    fn take(&mut self, most: usize) -> Vec<Sent> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((position, status)) = self.statuses.pop_first()
        {
            self.positions.remove(&status.uid);
            taken.push((status, position));
        }
        taken
    }

    /// What was sent in vain comes first again, unless something newer has come in its place.
    fn put_back(&mut self, (status, position): Sent) {
        if let Some(newer) = self.positions.get(&status.uid) {
            if let Some(newer) = self.statuses.get_mut(newer) {
                newer.terminated |= status.terminated;
            }
            return;
        }
        self.positions.insert(status.uid.clone(), position);
        self.statuses.insert(position, status);
    }
}
