use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use skep_agent_core::dataplane::{Event, GoneBackend, Index, LocalEndpoint, MapWrite, NameSource, Names};
use skep_proto::dataplane::v1::WatchEvent;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info, warn};

use super::duties::Duties;
use super::hits::Hits;
use super::maps;
use super::names_file::{Namer, NamesFile};
use super::routes::WantedRoutes;
use super::status::DataplaneStatus;
use crate::dns::Feed;
use crate::metrics::{Pending, ProgrammingLatency, Trigger};
use crate::upstream::DataplaneSink;

/// Changes that may wait to be handled, and those that are handled in one go.
const QUEUE: usize = 1024;
/// Names follow the maps this much later at the soonest.
const NAMES_DELAY: Duration = Duration::from_millis(50);
/// How long packets that read a map entry before it was replaced may still be under way.
const GRACE: Duration = Duration::from_millis(2);
/// How often a batch is drained again at once because writes of it failed.
const ROUNDS: u32 = 4;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// A local pod could not be connected.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// Its entry is not in the map.
    #[error("the endpoint could not be written to the maps: {0}")]
    NotWritten(String),
    /// The agent is ending.
    #[error("the dataplane has ended")]
    Ended,
}

enum Command {
    BeginStream(oneshot::Sender<u64>),
    Event(Box<WatchEvent>),
    AddEndpoint { endpoint: LocalEndpoint, answer: oneshot::Sender<Result<(), DataplaneError>> },
    RemoveEndpoint { ifindex: u32, answer: oneshot::Sender<()> },
}

/// What the driver begins with.
pub struct Start {
    /// The loaded programs.
    pub dataplane: Arc<skep_dataplane::Dataplane>,
    /// An index that has adopted what the maps hold, and the endpoints that are there.
    pub index: Index,
    /// How many endpoints these are.
    pub endpoints: usize,
    /// Where the names go.
    pub run_dir: PathBuf,
    /// Cluster DNS, when it is served: it hears what the maps hear.
    pub dns: Option<Feed>,
    /// Where it is noted how long changes take.
    pub programming: ProgrammingLatency,
}

/// The dataplane's thread, as others see it.
#[derive(Clone)]
pub struct Dataplane {
    commands: mpsc::Sender<Command>,
    status: watch::Sender<DataplaneStatus>,
    names: watch::Receiver<Arc<Names>>,
    routes: watch::Receiver<WantedRoutes>,
    duties: watch::Receiver<Duties>,
    gone: Arc<StdMutex<Option<mpsc::UnboundedReceiver<Vec<GoneBackend>>>>>,
}

impl Dataplane {
    /// Starts the thread. Must be called inside a tokio runtime. It ends when every [`Dataplane`] is gone.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(start: Start) -> std::io::Result<Self> {
        let (commands, receiver) = mpsc::channel(QUEUE);
        let (status, _) = watch::channel(DataplaneStatus::default());
        let (names_sender, names) = watch::channel(Arc::new(Names::default()));
        let (name_sources, to_name) = std::sync::mpsc::sync_channel(1);
        let namer = Namer { file: NamesFile::new(&start.run_dir), names: names_sender, sources: to_name };
        std::thread::Builder::new().name("names".to_owned()).spawn(move || namer.run())?;
        let (routes_sender, routes) = watch::channel(WantedRoutes::default());
        let (duties_sender, duties) = watch::channel(Duties::default());
        let (gone_sender, gone) = mpsc::unbounded_channel();
        let mut driver = Driver {
            dataplane: start.dataplane,
            index: start.index,
            endpoints: start.endpoints,
            dns: start.dns,
            commands: receiver,
            status: status.clone(),
            names: name_sources,
            routes: routes_sender,
            duties: duties_sender,
            gone: gone_sender,
            runtime: tokio::runtime::Handle::current(),
            names_due: Some(Instant::now()),
            names_delay: NAMES_DELAY,
            hits: Hits::default(),
            pending: Pending::new(start.programming),
            retired_due: None,
            retry_due: None,
            retry_delay: FIRST_RETRY,
        };
        std::thread::Builder::new().name("dataplane".to_owned()).spawn(move || driver.run())?;
        Ok(Self { commands, status, names, routes, duties, gone: Arc::new(StdMutex::new(Some(gone))) })
    }

    /// Gives a pod's interface its map entries.
    ///
    /// # Errors
    /// [`DataplaneError`]; the pod has no network then.
    pub async fn add_endpoint(&self, endpoint: LocalEndpoint) -> Result<(), DataplaneError> {
        let (answer, answered) = oneshot::channel();
        let command = Command::AddEndpoint { endpoint, answer };
        self.commands.send(command).await.map_err(|_| DataplaneError::Ended)?;
        answered.await.map_err(|_| DataplaneError::Ended)?
    }

    /// Takes them away, and unpins the programs.
    ///
    /// # Errors
    /// [`DataplaneError::Ended`].
    pub async fn remove_endpoint(&self, ifindex: u32) -> Result<(), DataplaneError> {
        let (answer, answered) = oneshot::channel();
        let command = Command::RemoveEndpoint { ifindex, answer };
        self.commands.send(command).await.map_err(|_| DataplaneError::Ended)?;
        answered.await.map_err(|_| DataplaneError::Ended)
    }

    /// What it has done.
    #[must_use]
    pub fn status(&self) -> DataplaneStatus {
        self.status.borrow().clone()
    }

    /// Notes the state of the routes.
    pub(super) fn set_route_problem(&self, problem: Option<String>) {
        self.status.send_if_modified(|status| {
            let changed = status.route_problem != problem;
            status.route_problem = problem;
            changed
        });
    }

    /// Changes that wait to be handled.
    #[must_use]
    pub fn queue_depth(&self) -> usize {
        self.commands.max_capacity() - self.commands.capacity()
    }

    /// What it has done, whenever that changes.
    #[must_use]
    pub fn watch_status(&self) -> watch::Receiver<DataplaneStatus> {
        self.status.subscribe()
    }

    /// What the numbers in the maps stand for.
    #[must_use]
    pub fn names(&self) -> Arc<Names> {
        Arc::clone(&self.names.borrow())
    }

    /// What the numbers in the maps stand for, whenever that changes.
    #[must_use]
    pub fn watch_names(&self) -> watch::Receiver<Arc<Names>> {
        self.names.clone()
    }

    /// Waits for the end of the thread, which must not come.
    pub async fn ended(&self) {
        let mut names = self.names.clone();
        while names.changed().await.is_ok() {}
    }

    /// What the objects ask of this node beside map entries, whenever that changes.
    #[must_use]
    pub fn watch_duties(&self) -> watch::Receiver<Duties> {
        self.duties.clone()
    }

    /// Backends that ceased to be, batch by batch, each after the maps are without them. For one to follow: the second
    /// caller gets nothing.
    #[must_use]
    pub fn gone_backends(&self) -> Option<mpsc::UnboundedReceiver<Vec<GoneBackend>>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn routes(&self) -> watch::Receiver<WantedRoutes> {
        self.routes.clone()
    }
}

impl DataplaneSink for Dataplane {
    async fn begin_stream(&self) -> u64 {
        let (answer, answered) = oneshot::channel();
        // Without the thread nothing can be resumed; the process is about to end.
        if self.commands.send(Command::BeginStream(answer)).await.is_err() {
            return 0;
        }
        answered.await.unwrap_or(0)
    }

    async fn event(&self, event: WatchEvent) {
        if self.commands.send(Command::Event(Box::new(event))).await.is_err() {
            warn!("an event came after the dataplane has ended");
        }
    }
}

struct Driver {
    dataplane: Arc<skep_dataplane::Dataplane>,
    index: Index,
    endpoints: usize,
    dns: Option<Feed>,
    commands: mpsc::Receiver<Command>,
    status: watch::Sender<DataplaneStatus>,
    names: SyncSender<NameSource>,
    routes: watch::Sender<WantedRoutes>,
    duties: watch::Sender<Duties>,
    gone: mpsc::UnboundedSender<Vec<GoneBackend>>,
    runtime: tokio::runtime::Handle,
    /// When names are to be written.
    names_due: Option<Instant>,
    names_delay: Duration,
    hits: Hits,
    /// Changes that are on their way to the maps.
    pending: Pending,
    /// When what the last writes replaced may be removed.
    retired_due: Option<Instant>,
    /// When the maps are to be compared with what they should be, because writes failed.
    retry_due: Option<Instant>,
    retry_delay: Duration,
}

/// Answers that wait for the batch's writes.
#[derive(Default)]
struct Answers {
    added: Vec<(u32, oneshot::Sender<Result<(), DataplaneError>>)>,
    removed: Vec<oneshot::Sender<()>>,
}

impl Driver {
    fn run(&mut self) {
        let mut arrived = Instant::now();
        let mut answers = Answers::default();
        self.program(arrived);
        loop {
            let due = [self.retired_due, self.names_due, self.retry_due].into_iter().flatten().min();
            match self.next(due) {
                Next::Command(command) => {
                    arrived = Instant::now();
                    self.take(command, &mut answers);
                    for _ in 1..QUEUE {
                        let Ok(command) = self.commands.try_recv() else { break };
                        self.take(command, &mut answers);
                    }
                }
                Next::Due => {}
                Next::Ended => return,
            }
            if self.retry_due.is_some_and(|due| due <= Instant::now()) {
                self.retry_due = None;
                self.compare();
            }
            if let Some(due) = self.retired_due {
                // The next drain removes what the last one replaced.
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            self.program(arrived);
            if let Some(dns) = &mut self.dns {
                dns.publish();
            }
            self.answer(&mut answers);
            if self.names_due.is_some_and(|due| due <= Instant::now()) {
                self.write_names();
            }
        }
    }

    fn next(&mut self, due: Option<Instant>) -> Next {
        let commands = &mut self.commands;
        let command = match due {
            None => commands.blocking_recv(),
            Some(due) => {
                // In a block: the timer is made where the runtime is known.
                let received =
                    self.runtime.block_on(async { tokio::time::timeout_at(due.into(), commands.recv()).await });
                match received {
                    Ok(command) => command,
                    Err(_elapsed) => return Next::Due,
                }
            }
        };
        command.map_or(Next::Ended, Next::Command)
    }

    fn take(&mut self, command: Command, answers: &mut Answers) {
        match command {
            Command::BeginStream(answer) => {
                // The stream's task is gone only when the process ends.
                let _ = answer.send(self.index.begin_stream());
                if let Some(dns) = &mut self.dns {
                    dns.begin_stream();
                }
                return;
            }
            Command::Event(event) => {
                if let Some(dns) = &mut self.dns {
                    dns.take(&event);
                }
                let trigger = Trigger::of(&event);
                match Event::try_from(*event) {
                    Ok(event) => {
                        self.index.apply(event);
                        self.pending.add(trigger);
                    }
                    Err(invalid) => {
                        error!(problem = %invalid, "object refused");
                        self.index.reject(&invalid);
                    }
                }
            }
            Command::AddEndpoint { endpoint, answer } => {
                answers.added.push((endpoint.ifindex, answer));
                self.endpoints += 1;
                self.index.endpoint_added(endpoint);
            }
            Command::RemoveEndpoint { ifindex, answer } => {
                if let Err(problem) = self.dataplane.detach_pod(ifindex) {
                    error!(ifindex, %problem, "programs not detached");
                }
                self.endpoints = self.endpoints.saturating_sub(1);
                self.index.endpoint_removed(ifindex);
                answers.removed.push(answer);
            }
        }
        self.names_due.get_or_insert_with(|| Instant::now() + self.names_delay);
    }

    /// Brings the maps to what the index asks for.
    fn program(&mut self, arrived: Instant) {
        let mut written = 0u64;
        let mut failed = 0u64;
        let mut problem = None;
        for _ in 0..ROUNDS {
            let writes = self.index.drain();
            let mut again = false;
            let mut rest = writes.as_slice();
            while !rest.is_empty() {
                let (run, after) = rest.split_at(maps::run_length(rest));
                rest = after;
                let (void, sound): (Vec<&MapWrite>, Vec<_>) = run.iter().partition(|write| self.index.is_void(write));
                void.into_iter().for_each(|write| self.index.write_failed(write));
                let failures = maps::apply_run(self.dataplane.maps(), &sound);
                written += sound.len().saturating_sub(failures.len()) as u64;
                failed += failures.len() as u64;
                for (at, error) in failures {
                    again = true;
                    if let Some(write) = sound.get(at) {
                        self.index.write_failed(write);
                    }
                    problem = Some(error.to_string());
                }
            }
            if !again {
                break;
            }
        }
        if let Some(problem) = &problem {
            error!(problem, failed, "map writes failed");
            self.retry_due = Some(Instant::now() + self.retry_delay);
            self.retry_delay = (self.retry_delay * 2).min(LAST_RETRY);
        } else if self.retry_due.is_none() {
            self.retry_delay = FIRST_RETRY;
            if self.index.is_synced() {
                self.pending.written();
            }
        }
        self.retired_due = self.index.has_retired().then(|| Instant::now() + GRACE);
        let wanted = WantedRoutes { routes: self.index.routes().clone(), complete: self.index.is_synced() };
        self.routes.send_if_modified(|routes| {
            let changed = *routes != wanted;
            if changed {
                *routes = wanted;
            }
            changed
        });
        self.hits.forget(&mut self.index, &self.dataplane.maps().service_hits);
        self.publish();
        let (synced, endpoints, retrying) = (self.index.is_synced(), self.endpoints, self.retry_due.is_some());
        let (entries, map_entries) = (self.index.contents().len(), self.index.contents().counts());
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.synced = synced;
            status.endpoints = endpoints;
            status.entries = entries;
            status.map_entries = map_entries;
            status.writes += written;
            status.failed_writes += failed;
            if written > 0 {
                status.programmed(arrived.elapsed());
            }
            if problem.is_some() || !retrying {
                status.problem = problem;
            }
            *status != before
        });
    }

    /// Tells others what is theirs to do.
    fn publish(&mut self) {
        let index = &mut self.index;
        let gone = index.take_gone_backends();
        if !gone.is_empty() && self.gone.send(gone).is_err() {
            debug!("nobody follows the backends that are gone");
        }
        let duties = Duties {
            synced: index.is_synced(),
            announced: index.announced().clone(),
            cluster_dns: if index.is_synced() { index.cluster_dns_addresses().to_vec() } else { Vec::new() },
            health_checks: index.health_checks(),
        };
        self.duties.send_if_modified(|before| {
            let changed = *before != duties;
            if changed {
                *before = duties;
            }
            changed
        });
    }

    fn answer(&mut self, answers: &mut Answers) {
        for (ifindex, answer) in answers.added.drain(..) {
            let result = match self.dataplane.maps().endpoints.get(&ifindex) {
                Ok(Some(_)) => Ok(()),
                Ok(None) => {
                    let problem = self.status.borrow().problem.clone();
                    Err(DataplaneError::NotWritten(problem.unwrap_or_else(|| "not asked for".to_owned())))
                }
                Err(error) => Err(DataplaneError::NotWritten(error.to_string())),
            };
            // Whoever asked may have been given up on; its cleanup removes the endpoint.
            let _ = answer.send(result);
        }
        for answer in answers.removed.drain(..) {
            let _ = answer.send(());
        }
    }

    /// Has the index look at what the maps really hold.
    fn compare(&mut self) {
        match read_or_explain(&self.dataplane) {
            Ok(contents) => {
                info!("comparing the maps with what they should hold");
                self.index.adopt(contents);
            }
            Err(problem) => {
                error!(problem, "maps not read");
                self.retry_due = Some(Instant::now() + self.retry_delay);
            }
        }
    }

    /// Hands over what is needed to name things; the naming itself may take longer than a change may wait.
    fn write_names(&mut self) {
        let started = Instant::now();
        let source = self.index.name_source();
        // With very many Services, even this may take a tenth of the thread's time at most.
        self.names_delay = NAMES_DELAY.max(started.elapsed() * 10);
        self.names_due = match self.names.try_send(source) {
            Ok(()) => None,
            // The last names are still being written.
            Err(TrySendError::Full(_)) => Some(Instant::now() + self.names_delay),
            Err(TrySendError::Disconnected(_)) => {
                error!("names are not written any more");
                None
            }
        };
    }
}

fn read_or_explain(dataplane: &skep_dataplane::Dataplane) -> Result<skep_agent_core::dataplane::MapContents, String> {
    maps::read_contents(dataplane.maps()).map_err(|error| error.to_string())
}

enum Next {
    Command(Command),
    Due,
    Ended,
}
