//! `skep-control serve`: everything put together.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::{Api, ApiConfig};
use crate::config::Serve;
use crate::controllers::{self, ControllersConfig};
use crate::grpc::{self, GrpcConfig};
use crate::pki::Pki;
use crate::rest::{KubeletClient, Rest};
use crate::server::{self, Doors};
use crate::{Backend, tls};

/// Serves until a signal ends it.
pub async fn run(config: Serve) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut control = Control::start(config).await?;
    tracing::info!("serving on {} (https://{})", control.address, control.endpoint);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        // A disk that failed is not written to again: the next start reads what it really holds.
        failed = control.api.store().failure() => anyhow::bail!("the store failed: {failed}"),
        ended = &mut control.server => anyhow::bail!("the server ended: {ended:?}"),
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
    server: JoinHandle<()>,
    controllers: Option<JoinHandle<()>>,
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
            node_ports: config.service_node_port_range,
            cluster_domain: config.cluster_domain.clone(),
            lease_duration_seconds: config.node_monitor_grace_seconds,
        };
        let api = Api::start(store, api_config).await.context("first objects")?;
        let (shutdown, over) = watch::channel(false);
        let kubelet = KubeletClient::new(tls::client_config(&pki)?);
        let rest = Rest::new(api.clone(), kubelet, endpoint.clone(), over.clone()).router();
        let grpc = grpc::services(api.clone(), GrpcConfig::of(&api).until(over.clone())).into_axum_router();
        let doors = Doors { rest, grpc };
        let server = tokio::spawn(server::serve(listener, tls::server_config(&pki)?, doors, over.clone()));
        let controllers = (!config.api_only).then(|| {
            let seconds = |seconds: u32| Duration::from_secs(seconds.into());
            let config = ControllersConfig {
                node_monitor_grace: seconds(config.node_monitor_grace_seconds),
                node_eviction: seconds(config.node_eviction_seconds),
                service_cidrs: config.service_cidr.clone(),
                advertise: endpoint.clone(),
                root_ca: pki.ca.clone(),
            };
            controllers::spawn(api.clone(), config, over)
        });
        Ok(Self { address, endpoint, api, shutdown, server, controllers })
    }

    /// Ends watches, lets requests end, closes the store.
    pub async fn stop(self) {
        self.shutdown.send_replace(true);
        for task in [Some(self.server), self.controllers].into_iter().flatten() {
            if let Err(error) = task.await {
                tracing::warn!(%error, "a task of the service");
            }
        }
    }
}
