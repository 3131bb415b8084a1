//! `skep.dataplane.v1.DataplaneService`.
//!
//! Written by hand instead of on the generated trait, because what is sent is encoded already: each object once, for
//! all streams, with only the revision and the time of the change put before it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Bound;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use prost::encoding::{WireType, encode_key, encode_varint};
use skep_proto::dataplane::v1::watch_event::Event;
use skep_proto::dataplane::v1::{Progress, SnapshotBegin, Synced, WatchRequest};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, ServerStreamingService};
use tonic::{Request, Response, Status};

use super::feed::{Boards, Feed, Interrupted, Position, View, body};
use super::{PROGRESS, authority};

/// Entries that are taken from the journal at a time.
const PORTION: usize = 128;

/// The service.
#[derive(Clone, Debug)]
pub(super) struct DataplaneDoor {
    feed: Arc<Feed>,
}

impl DataplaneDoor {
    pub(super) fn new(feed: Arc<Feed>) -> Self {
        Self { feed }
    }
}

impl NamedService for DataplaneDoor {
    const NAME: &'static str = "skep.dataplane.v1.DataplaneService";
}

impl Service<http::Request<Body>> for DataplaneDoor {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = Watch(Arc::clone(&self.feed));
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/skep.dataplane.v1.DataplaneService/Watch" => {
                    Grpc::new(SharedCodec).server_streaming(method, request).await
                }
                path => Status::unimplemented(format!("there is no method {path}")).into_http(),
            })
        })
    }
}

struct Watch(Arc<Feed>);

impl ServerStreamingService<WatchRequest> for Watch {
    type Response = Framed;
    type ResponseStream = std::pin::Pin<Box<dyn Stream<Item = Result<Framed, Status>> + Send>>;
    type Future = std::future::Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<WatchRequest>) -> Self::Future {
        let WatchRequest { node, resume_revision } = request.get_ref();
        let stream: Result<Self::ResponseStream, _> = authority::named(&request, node)
            .map(|()| Box::pin(stream(Arc::clone(&self.0), *resume_revision)) as Self::ResponseStream);
        std::future::ready(stream.map(Response::new))
    }
}

/// An encoded event, its revision, and when that was: nanoseconds after the Unix epoch, 0 when it is not known.
#[derive(Clone, Debug)]
struct Framed {
    revision: u64,
    changed_at: u64,
    body: Bytes,
}

/// Sends [`Framed`] as what a `WatchEvent` is on the wire: the fields of a message may come in any order and from any
/// number of pieces.
#[derive(Clone, Copy, Debug, Default)]
struct SharedCodec;

impl Codec for SharedCodec {
    type Encode = Framed;
    type Decode = WatchRequest;
    type Encoder = Self;
    type Decoder = <tonic_prost::ProstCodec<WatchRequest, WatchRequest> as Codec>::Decoder;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self::Decoder {
        tonic_prost::ProstCodec::<WatchRequest, WatchRequest>::default().decoder()
    }
}

impl Encoder for SharedCodec {
    type Item = Framed;
    type Error = Status;

    fn encode(&mut self, item: Framed, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // Field 1 of WatchEvent.
        encode_key(1, WireType::Varint, buffer);
        encode_varint(item.revision, buffer);
        if item.changed_at != 0 {
            // Field 12.
            encode_key(12, WireType::SixtyFourBit, buffer);
            buffer.put_u64_le(item.changed_at);
        }
        buffer.put(item.body);
        Ok(())
    }
}

/// One stream: a position in the journal.
struct Session {
    feed: Arc<Feed>,
    changes: watch::Receiver<u64>,
    epoch: u64,
    view: View,
    position: Position,
    /// Whether the state that was asked for is complete.
    live: bool,
    /// Whether the view is read to its end.
    drained: bool,
    /// Whether deletions are left out, since the receiver removes what a full snapshot does not have.
    snapshot: bool,
    /// Newest revision that was sent.
    sent: u64,
    queue: VecDeque<Framed>,
    next_progress: Instant,
}

/// The stream of events for one node; ends with an error when the node has to ask again.
fn stream(feed: Arc<Feed>, resume: u64) -> impl Stream<Item = Result<Framed, Status>> + Send {
    unfold(None, move |session: Option<Result<Session, ()>>| {
        let feed = Arc::clone(&feed);
        async move {
            let mut session = match session {
                None => match Session::begin(feed, resume).await {
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
    async fn begin(feed: Arc<Feed>, resume: u64) -> Result<Self, Status> {
        let mut changes = feed.dataplane_changes();
        let (epoch, view) = feed.begin(&mut changes, Boards::dataplane).await?;
        // A revision that has not been is one of another store.
        let snapshot = resume == 0 || resume < view.floor || resume > feed.store_revision();
        let mut queue = VecDeque::new();
        if snapshot {
            queue.push_back(frame(view.head, Event::SnapshotBegin(SnapshotBegin {})));
        }
        let position = if snapshot { (0, 0) } else { (resume, u64::MAX) };
        let sent = if snapshot { 0 } else { resume };
        let (live, drained, next_progress) = (false, false, Instant::now() + PROGRESS);
        Ok(Self { feed, changes, epoch, view, position, live, drained, snapshot, sent, queue, next_progress })
    }

    async fn next(&mut self) -> Result<Framed, Status> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(event);
            }
            if !self.drained {
                self.drain();
                continue;
            }
            let changed = tokio::select! {
                changed = self.changes.changed() => { changed.map_err(|_| Interrupted::Over)?; true }
                () = tokio::time::sleep_until(self.next_progress) => false,
            };
            self.view = self.feed.read(Some(self.epoch), Boards::dataplane)?.1;
            self.drained = false;
            if !changed {
                self.next_progress = Instant::now() + PROGRESS;
                self.drain();
                if self.queue.is_empty() && self.view.head > self.sent {
                    self.sent = self.view.head;
                    self.queue.push_back(frame(self.sent, Event::Progress(Progress {})));
                }
            }
        }
    }

    /// Queues the next portion of the view, and behind the last one of the asked state the mark that it is complete.
    fn drain(&mut self) {
        let behind = (Bound::Excluded(self.position), Bound::Unbounded);
        let mut entries = self.view.entries.range(behind).peekable();
        for _ in 0..PORTION {
            let Some((position, entry)) = entries.next() else {
                self.drained = true;
                break;
            };
            self.position = *position;
            if entry.deleted && self.snapshot {
                continue;
            }
            // A revision is reached with its last event only.
            let last = entries.peek().is_none_or(|((revision, _), _)| *revision > position.0);
            let revision = if last { position.0 } else { position.0 - 1 };
            self.sent = self.sent.max(revision);
            // In a snapshot the time would tell when the object came to be as it is, not that something changes.
            let changed_at = if self.snapshot { 0 } else { entry.changed_at };
            self.queue.push_back(Framed { revision, changed_at, body: entry.body.clone() });
        }
        if self.drained && !self.live {
            self.live = true;
            self.snapshot = false;
            // A resuming receiver may know more than this feed has read so far.
            self.sent = self.sent.max(self.view.head);
            self.queue.push_back(frame(self.sent, Event::Synced(Synced {})));
        }
    }
}

fn frame(revision: u64, event: Event) -> Framed {
    Framed { revision, changed_at: 0, body: body(event) }
}
