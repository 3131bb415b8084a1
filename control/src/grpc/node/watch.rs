//! The stream of what a node must run.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::unfold;
use skep_proto::node::v1::node_event::Event;
use skep_proto::node::v1::{NodeEvent, Object, ObjectRef, Progress, SnapshotBegin, Synced};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

use super::super::PROGRESS;
use super::super::feed::{Boards, Feed, Interrupted, ObjectName, Sent};
use crate::api::Object as ApiObject;

/// What waits to be sent; objects are written out only then.
enum Item {
    Mark(u64, Event),
    Change(u64, ObjectName, Sent<ApiObject>),
}

/// One stream: a revision up to which its node knows everything.
struct Session {
    feed: Arc<Feed>,
    node: String,
    changes: watch::Receiver<u64>,
    epoch: u64,
    known: u64,
    queue: VecDeque<Item>,
    next_progress: Instant,
}

/// The stream of events for one node; ends with an error when the node has to ask again.
pub(super) fn stream(
    feed: Arc<Feed>,
    node: String,
    resume: u64,
) -> impl Stream<Item = Result<NodeEvent, Status>> + Send {
    unfold(None, move |session: Option<Result<Session, ()>>| {
        let (feed, node) = (Arc::clone(&feed), node.clone());
        async move {
            let mut session = match session {
                None => match Session::begin(feed, node, resume).await {
                    Ok(session) => session,
                    Err(error) => return Some((Err(error), Some(Err(())))),
                },
                Some(session) => session.ok()?,
            };
            Some(match session.next().await {
                Ok(event) => (Ok(event), Some(Ok(session))),
                Err(error) => (Err(error), Some(Err(()))),
            })
        }
    })
}

impl Session {
    async fn begin(feed: Arc<Feed>, node: String, resume: u64) -> Result<Self, Status> {
        let mut changes = feed.node_changes(&node);
        let read = |boards: &Boards| {
            let floor = boards.node(&node, Some(u64::MAX)).floor;
            // A revision that has not been is one of another store.
            let resumes = resume != 0 && resume >= floor && resume <= feed.store_revision();
            (boards.head(), resumes, boards.node(&node, resumes.then_some(resume)).changes)
        };
        let (epoch, (head, resumes, state)) = feed.begin(&mut changes, read).await?;
        // A resuming node may know more than this feed has read so far.
        let known = if resumes { head.max(resume) } else { head };
        let mut queue = VecDeque::with_capacity(state.len() + 2);
        if !resumes {
            queue.push_back(Item::Mark(head, Event::SnapshotBegin(SnapshotBegin {})));
        }
        let reached = if resumes { resume } else { head };
        queue.extend(state.into_iter().map(|(name, sent)| Item::Change(reached, name, sent)));
        queue.push_back(Item::Mark(known, Event::Synced(Synced {})));
        Ok(Self { feed, node, changes, epoch, known, queue, next_progress: Instant::now() + PROGRESS })
    }

    async fn next(&mut self) -> Result<NodeEvent, Status> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Ok(event(item));
            }
            let changed = tokio::select! {
                changed = self.changes.changed() => { changed.map_err(|_| Interrupted::Over)?; true }
                () = tokio::time::sleep_until(self.next_progress) => false,
            };
            let read = self
                .feed
                .read(Some(self.epoch), |boards| (boards.head(), boards.node(&self.node, Some(self.known)).changes));
            let (_, (head, news)) = read?;
            if !changed {
                self.next_progress = Instant::now() + PROGRESS;
            }
            if head <= self.known || (news.is_empty() && changed) {
                continue;
            }
            // The revision is reached when all of it has been sent; only the mark behind them says so.
            self.queue.extend(news.into_iter().map(|(name, sent)| Item::Change(self.known, name, sent)));
            self.queue.push_back(Item::Mark(head, Event::Progress(Progress {})));
            self.known = head;
        }
    }
}

fn event(item: Item) -> NodeEvent {
    let (revision, event) = match item {
        Item::Mark(revision, event) => (revision, event),
        Item::Change(revision, ObjectName { kind, namespace, name }, Sent { uid, object }) => {
            let reference = ObjectRef { kind: kind.as_str().to_owned(), namespace, name, uid };
            let event = match object {
                Some(object) => Event::Changed(Object { r#ref: Some(reference), json: object.json() }),
                None => Event::Deleted(reference),
            };
            (revision, event)
        }
    };
    NodeEvent { revision, event: Some(event) }
}
