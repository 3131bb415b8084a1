//! Carrying out a pod's commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use k8s_cri::v1 as cri;
use skep_agent_core::pods::config::MountSource;
use skep_agent_core::pods::image::ImageInfo;
use skep_agent_core::pods::probe::ProbeOutcome;
use skep_agent_core::pods::{Command, ContainerConfig, Done, SandboxConfig, VolumePlan};

use super::context::Context;
use super::runtime::RuntimeError;
use super::{convert, probes, volumes};

/// What a command is carried out with.
pub(super) struct Executor {
    pub(super) context: Arc<Context>,
    pub(super) uid: String,
    /// What is on disk for the pod.
    pub(super) volumes: Arc<VolumePlan>,
}

impl Executor {
    /// Carries out one command, and says whether it may have changed what the runtime holds.
    pub(super) async fn execute(self, command: Command) -> Option<(Done, bool)> {
        let text = |error: RuntimeError| error.to_string();
        let runtime = &self.context.runtime;
        Some(match command {
            Command::WriteVolumes(plan) => (Done::VolumesWritten(self.write_volumes(plan).await), false),
            Command::CreateSandbox(config) => (Done::SandboxCreated(self.create_sandbox(&config).await), true),
            Command::StopSandbox(id) => {
                let result = runtime.stop_sandbox(&id).await.map_err(text);
                (Done::SandboxStopped(id, result), true)
            }
            Command::RemoveSandbox(id) => {
                let result = runtime.remove_sandbox(&id).await.map_err(text);
                (Done::SandboxRemoved(id, result), true)
            }
            Command::CheckImage { container, image } => {
                let found = runtime.image(&image).await.map(|found| found.map(|image| info(&image))).map_err(text);
                (Done::ImageChecked(container, found), false)
            }
            Command::PullImage { container, image } => {
                (Done::ImagePulled(container, self.pull(&image).await.map_err(text)), false)
            }
            Command::CreateContainer { sandbox_id, config, sandbox } => {
                let result = self.create_container(sandbox_id, &config, &sandbox).await;
                let failed = result.is_err();
                (Done::ContainerCreated(config.name.clone(), result), failed)
            }
            Command::StartContainer { container, id } => {
                let result = runtime.start_container(&id).await.map_err(text);
                (Done::ContainerStarted(container, result), true)
            }
            Command::StopContainer { container, id, grace } => {
                let result = runtime.stop_container(&id, unsigned(grace)).await.map_err(text);
                (Done::ContainerStopped(container, id, result), true)
            }
            Command::RemoveContainer { id, log_path } => {
                let result = self.remove_container(&id, &log_path).await;
                (Done::ContainerRemoved(id, result), true)
            }
            Command::RunProbe { container, id, kind, check, timeout } => {
                let outcome = probes::run(runtime, &id, &check, unsigned(timeout)).await;
                (Done::Probed(container, id, kind, outcome), false)
            }
            Command::RunHook { container, id, kind, check, timeout } => {
                let result = match probes::run(runtime, &id, &check, unsigned(timeout)).await {
                    ProbeOutcome::Success => Ok(()),
                    ProbeOutcome::Failure(error) | ProbeOutcome::Error(error) => Err(error),
                };
                (Done::HookDone(container, id, kind, result), false)
            }
            Command::RemoveFiles => (Done::FilesRemoved(self.remove_files().await), false),
            Command::Report(_) | Command::Event(_) => return None,
        })
    }

    async fn write_volumes(&self, plan: VolumePlan) -> Result<(), (String, String)> {
        let (context, uid) = (Arc::clone(&self.context), self.uid.clone());
        let written = blocking(move || volumes::write(&context.layout, &uid, &plan)).await;
        match written {
            Ok(result) => result.map_err(|error| (error.volume, error.reason)),
            Err(error) => Err((String::new(), error)),
        }
    }

    async fn create_sandbox(&self, config: &SandboxConfig) -> Result<(), String> {
        // The permits are never closed.
        let _permit = self.context.sandbox_permits.acquire().await.map_err(|error| error.to_string())?;
        let log_directory = PathBuf::from(&config.log_directory);
        tokio::fs::create_dir_all(&log_directory)
            .await
            .map_err(|error| format!("{}: {error}", log_directory.display()))?;
        let request = cri::RunPodSandboxRequest {
            config: Some(convert::sandbox(config)),
            runtime_handler: config.runtime_handler.clone(),
        };
        self.context.runtime.run_sandbox(request).await.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn pull(&self, image: &str) -> Result<(ImageInfo, SignedDuration), RuntimeError> {
        let began = Instant::now();
        let reference = self.context.runtime.pull(image).await?;
        let pulled = self.context.runtime.image(&reference).await?;
        let took = SignedDuration::try_from(began.elapsed()).unwrap_or(SignedDuration::MAX);
        let pulled = pulled.map_or_else(|| ImageInfo { id: reference, ..ImageInfo::default() }, |image| info(&image));
        Ok((pulled, took))
    }

    async fn create_container(
        &self,
        sandbox_id: String,
        config: &ContainerConfig,
        sandbox: &SandboxConfig,
    ) -> Result<String, String> {
        let paths = self.prepare_mounts(config.clone()).await?;
        let mounts: Vec<convert::ResolvedMount<'_>> = config
            .mounts
            .iter()
            .zip(&paths)
            .map(|(mount, path)| convert::ResolvedMount {
                container_path: &mount.container_path,
                host_path: path,
                readonly: mount.readonly,
                propagation: mount.propagation,
            })
            .collect();
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox_id,
            config: Some(convert::container(config, &mounts)),
            sandbox_config: Some(convert::sandbox(sandbox)),
        };
        self.context.runtime.create_container(request).await.map_err(|error| error.to_string())
    }

    /// Makes what the container's mounts show, and says where that is.
    async fn prepare_mounts(&self, config: ContainerConfig) -> Result<Vec<PathBuf>, String> {
        let (context, uid, plan) = (Arc::clone(&self.context), self.uid.clone(), Arc::clone(&self.volumes));
        blocking(move || {
            let layout = &context.layout;
            let write = |path: &Path, content: &[u8], mode: u32| -> std::io::Result<()> {
                use std::os::unix::fs::PermissionsExt as _;
                if let Some(parent) = path.parent() {
                    std::fs::create_dir_all(parent)?;
                }
                std::fs::write(path, content)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            };
            let mut paths = Vec::with_capacity(config.mounts.len());
            for (index, mount) in config.mounts.iter().enumerate() {
                let path = match &mount.source {
                    MountSource::Host(path) => Ok(PathBuf::from(path)),
                    MountSource::Hosts => {
                        let path = layout.hosts(&uid);
                        write(&path, config.hosts.as_bytes(), 0o644).map(|()| path)
                    }
                    MountSource::TerminationMessage => {
                        let path = layout.termination_message(&uid, &config.name, config.attempt);
                        // The container's user writes it, whoever that is.
                        write(&path, &[], 0o666).map(|()| path)
                    }
                    MountSource::Volume { name, sub_path } if sub_path.is_empty() => {
                        Ok(volumes::path(layout, &uid, name, &plan))
                    }
                    MountSource::Volume { name, sub_path } => {
                        let volume = volumes::path(layout, &uid, name, &plan);
                        let target = layout.sub_path(&uid, &config.name, index);
                        volumes::sub_path(&volume, Path::new(sub_path), &target).map(|()| target)
                    }
                };
                paths.push(path.map_err(|error| format!("failed to prepare mount {}: {error}", mount.container_path))?);
            }
            Ok(paths)
        })
        .await?
    }

    async fn remove_container(&self, id: &str, log_path: &str) -> Result<(), String> {
        // The runtime knows the whole path, whatever the log directory was when the container was made.
        let log = match self.context.runtime.container_status(id).await {
            Ok(status) => status.map(|status| status.log_path).filter(|path| path.ends_with(log_path)),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.to_string()),
        };
        self.context.runtime.remove_container(id).await.map_err(|error| error.to_string())?;
        let Some(log) = log else { return Ok(()) };
        match tokio::fs::remove_file(&log).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{log}: {error}")),
            _ => Ok(()),
        }
    }

    async fn remove_files(&self) -> Result<(), String> {
        let (context, uid) = (Arc::clone(&self.context), self.uid.clone());
        blocking(move || volumes::remove(&context.layout, &uid)).await?.map_err(|error| error.to_string())
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

fn info(image: &cri::Image) -> ImageInfo {
    ImageInfo {
        id: image.id.clone(),
        size: image.size,
        user: image.uid.as_ref().map(|uid| uid.value),
        username: image.username.clone(),
    }
}

fn unsigned(duration: SignedDuration) -> Duration {
    Duration::try_from(duration).unwrap_or(Duration::ZERO)
}
