use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tracing::{error, warn};

use super::DnsArgs;
use crate::upstream::Registration;

/// Where cluster names are resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterDns {
    /// Addresses of the cluster's name server.
    pub servers: Vec<IpAddr>,
    /// Domain of the cluster, e.g. `cluster.local`.
    pub domain: String,
}

/// Whether and where the node serves cluster DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `None`: it does not, or it is not known yet.
    pub dns: Option<ClusterDns>,
    /// It is not merely what was so at an earlier start.
    pub settled: bool,
}

/// The settings of cluster DNS, whenever they change.
pub type SettingsWatch = watch::Receiver<Settings>;

/// Waits until it is settled whether there is cluster DNS: pods are told once, when they start.
pub async fn settled(mut settings: SettingsWatch) {
    // The other side ends with the process.
    let _ended = settings.wait_for(|settings| settings.settled).await;
}

/// What an earlier registration said, so that names are served before the control service answers.
const FILE: &str = "cluster-dns.json";

/// Takes the settings from the command line, what this leaves open from the registration, and until there is one from what
/// an earlier agent noted in the state directory.
#[derive(Debug)]
pub struct SettingsKeeper {
    args: DnsArgs,
    file: PathBuf,
    remembered: Option<ClusterDns>,
    sender: watch::Sender<Settings>,
}

impl SettingsKeeper {
    /// Begins with what is known without the control service.
    #[must_use]
    pub fn open(args: &DnsArgs, state_dir: &Path) -> Self {
        let file = state_dir.join(FILE);
        let remembered = if args.no_cluster_dns { None } else { recall(&file) };
        let complete = !args.cluster_dns.is_empty() && args.cluster_domain.is_some();
        let first = Settings { dns: merge(args, remembered.as_ref()), settled: args.no_cluster_dns || complete };
        Self { args: args.clone(), file, remembered, sender: watch::channel(first).0 }
    }

    /// The settings, whenever they change.
    #[must_use]
    pub fn watch(&self) -> SettingsWatch {
        self.sender.subscribe()
    }

    /// Goes by what the control service says, for ever.
    pub async fn follow(mut self, mut registrations: watch::Receiver<Option<Registration>>) {
        loop {
            let said = registrations.borrow_and_update().as_ref().map(|registration| registration.cluster_dns.clone());
            if let Some(said) = said {
                self.take(said);
            }
            if registrations.changed().await.is_err() {
                return;
            }
        }
    }

    fn take(&mut self, said: Option<ClusterDns>) {
        if said != self.remembered {
            if let Err(problem) = remember(&self.file, said.as_ref()) {
                error!(%problem, path = %self.file.display(), "the settings of cluster DNS are forgotten at a restart");
            }
            self.remembered = said;
        }
        let now = Settings { dns: merge(&self.args, self.remembered.as_ref()), settled: true };
        self.sender.send_if_modified(|settings| {
            let changed = *settings != now;
            *settings = now;
            changed
        });
    }
}

/// The command line's word counts before that of the control service.
fn merge(args: &DnsArgs, said: Option<&ClusterDns>) -> Option<ClusterDns> {
    if args.no_cluster_dns {
        return None;
    }
    let own = Some(args.cluster_dns.clone()).filter(|servers| !servers.is_empty());
    let servers = own.or_else(|| said.map(|said| said.servers.clone()))?;
    let domain = args.cluster_domain.clone().or_else(|| said.map(|said| said.domain.clone()))?;
    Some(ClusterDns { servers, domain })
}

fn recall(file: &Path) -> Option<ClusterDns> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return None,
        Err(problem) => {
            warn!(%problem, path = %file.display(), "what was known of cluster DNS cannot be read");
            return None;
        }
    };
    match serde_json::from_slice(&text) {
        Ok(remembered) => Some(remembered),
        // As after a loss of power; the control service will say it again.
        Err(problem) => {
            warn!(%problem, path = %file.display(), "what was known of cluster DNS cannot be read");
            None
        }
    }
}

fn remember(file: &Path, said: Option<&ClusterDns>) -> io::Result<()> {
    let Some(said) = said else {
        return match fs::remove_file(file) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => Err(problem),
            _ => Ok(()),
        };
    };
    let temporary = file.with_extension("json.new");
    fs::write(&temporary, serde_json::to_vec(said)?)?;
    fs::rename(&temporary, file)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn dns(server: &str) -> ClusterDns {
        ClusterDns { servers: vec![server.parse().unwrap()], domain: "cluster.local".to_owned() }
    }

    fn registration(cluster_dns: Option<ClusterDns>) -> Registration {
        Registration {
            uid: "uid".to_owned(),
            pod_ranges: Vec::new(),
            service_ranges: Vec::new(),
            lease_duration: Duration::from_secs(40),
            cluster_dns,
        }
    }

    fn open(args: &DnsArgs, dir: &Path) -> (SettingsKeeper, SettingsWatch) {
        let keeper = SettingsKeeper::open(args, dir);
        let settings = keeper.watch();
        (keeper, settings)
    }

    #[tokio::test]
    async fn a_registration_is_remembered_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (keeper, mut settings) = open(&DnsArgs::default(), dir.path());
        assert_eq!(*settings.borrow_and_update(), Settings { dns: None, settled: false });
        let (registrations, receiver) = watch::channel(None);
        tokio::spawn(keeper.follow(receiver));
        registrations.send(Some(registration(Some(dns("10.96.0.10"))))).unwrap();
        settings.changed().await.unwrap();
        assert_eq!(*settings.borrow(), Settings { dns: Some(dns("10.96.0.10")), settled: true });

        // The next start, at first without the control service.
        let (keeper, mut settings) = open(&DnsArgs::default(), dir.path());
        assert_eq!(*settings.borrow_and_update(), Settings { dns: Some(dns("10.96.0.10")), settled: false });
        let (registrations, receiver) = watch::channel(None);
        tokio::spawn(keeper.follow(receiver));
        registrations.send(Some(registration(None))).unwrap();
        settings.changed().await.unwrap();
        assert_eq!(*settings.borrow(), Settings { dns: None, settled: true });
        assert!(!dir.path().join(FILE).exists());
    }

    #[tokio::test]
    async fn the_command_line_counts_before() {
        let dir = tempfile::tempdir().unwrap();
        let (_registrations, receiver) = watch::channel(Some(registration(Some(dns("10.96.0.10")))));
        let mine = DnsArgs { cluster_dns: dns("10.0.0.1").servers, ..DnsArgs::default() };
        let (keeper, settings) = open(&mine, dir.path());
        assert!(!settings.borrow().settled);
        tokio::spawn(keeper.follow(receiver));
        settled(settings.clone()).await;
        assert_eq!(settings.borrow().dns, Some(dns("10.0.0.1")));

        let off = DnsArgs { no_cluster_dns: true, ..DnsArgs::default() };
        assert_eq!(*open(&off, dir.path()).1.borrow(), Settings { dns: None, settled: true });

        fs::write(dir.path().join(FILE), "{").unwrap();
        let all = DnsArgs { cluster_domain: Some("corp.local".to_owned()), ..mine };
        let settings = open(&all, dir.path()).1.borrow().clone();
        assert!(settings.settled && settings.dns.unwrap().domain == "corp.local");
    }
}
