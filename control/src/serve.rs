//! `skep-control serve`: everything put together.

use std::fs;
use std::net::SocketAddr;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::{Api, ApiConfig};
use crate::config::Serve;
use crate::pki::Pki;
use crate::rest::{KubeletClient, Rest};
use crate::server::{self, Doors};
use crate::{Backend, tls};

/// Serves until a signal ends it.
pub async fn run(config: Serve) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let control = Control::start(config).await?;
    tracing::info!("serving on {} (https://{})", control.address, control.endpoint);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = control.server_ended() => anyhow::bail!("the server ended"),
    }
    tracing::info!("ending");
    control.stop().await;
    Ok(())
}

/// A running control service.
#[derive(Debug)]
pub struct Control {
    /// Where it listens.
    pub address: SocketAddr,
    /// HOST:PORT that clients are pointed to.
    pub endpoint: String,
    /// The API in this process.
    pub api: Api,
    shutdown: watch::Sender<bool>,
    server: tokio::task::JoinHandle<()>,
}

impl Control {
    /// Makes or reads certificates, opens the store, listens, and serves.
    pub async fn start(mut config: Serve) -> anyhow::Result<Self> {
        let data = config.data_dir.clone();
        fs::create_dir_all(&data).with_context(|| format!("--data-dir {}", data.display()))?;
        let listener = server::listen(config.listen).await.with_context(|| format!("--listen {}", config.listen))?;
        let address = listener.local_addr()?;
        config.listen = address;
        let endpoint = config.endpoint();
        let pki = Pki::load_or_create(&data, &config.serving_names(), &endpoint).context("certificates")?;
        let path = data.join("store.redb");
        let store = tokio::task::spawn_blocking(move || Backend::open(&path, skep_store::Options::default()))
            .await?
            .context("store")?;
        let api_config = ApiConfig {
            service_cidrs: config.service_cidr.clone(),
            cluster_cidrs: config.cluster_cidr.clone(),
            lease_duration_seconds: config.node_monitor_grace_seconds,
        };
        let api = Api::start(store, api_config).await.context("first objects")?;
        let (shutdown, over) = watch::channel(false);
        let server = Self::spawn(listener, &pki, &api, &endpoint, over)?;
        Ok(Self { address, endpoint, api, shutdown, server })
    }

    fn spawn(
        listener: TcpListener,
        pki: &Pki,
        api: &Api,
        endpoint: &str,
        over: watch::Receiver<bool>,
    ) -> anyhow::Result<tokio::task::JoinHandle<()>> {
        let kubelet = KubeletClient::new(tls::client_config(pki)?);
        let rest = Rest::new(api.clone(), kubelet, endpoint.to_owned(), over.clone()).router();
        let doors = Doors { rest, grpc: axum::Router::new() };
        Ok(tokio::spawn(server::serve(listener, tls::server_config(pki)?, doors, over)))
    }

    async fn server_ended(&self) {
        let mut shutdown = self.shutdown.subscribe();
        // The sender is `self.shutdown`: this waits for as long as `self` lives, unless the server's task ends first.
        while !self.server.is_finished() {
            let wait = tokio::time::timeout(std::time::Duration::from_secs(1), shutdown.changed());
            if matches!(wait.await, Ok(Err(_))) {
                return;
            }
        }
    }

    /// Ends watches, lets requests end, closes the store.
    pub async fn stop(self) {
        self.shutdown.send_replace(true);
        if let Err(error) = self.server.await {
            tracing::warn!(%error, "the server's task");
        }
    }
}
