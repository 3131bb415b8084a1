//! `skep.node.v1.NodeService`.

mod conditions;
mod events;
mod lease;
mod node_status;
mod pod_cidr;
mod pod_status;
mod register;
mod watch;

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use skep_proto::node::v1::node_service_server::NodeService;
use skep_proto::node::v1::{
    NodeEvent, RegisterRequest, RegisterResponse, RenewLeaseRequest, RenewLeaseResponse, ReportEventsRequest,
    ReportEventsResponse, ReportNodeStatusRequest, ReportNodeStatusResponse, ReportPodStatusRequest,
    ReportPodStatusResponse, WatchNodeRequest,
};
use tonic::{Request, Response, Status};

use super::feed::Feed;
use super::{GrpcConfig, authority};
use crate::api::{Api, Caller};

/// The service.
#[derive(Debug)]
pub(super) struct NodeDoor {
    api: Api,
    config: GrpcConfig,
    feed: Arc<Feed>,
    events: events::Aggregator,
    pod_cidrs: pod_cidr::PodCidrs,
}

impl NodeDoor {
    pub(super) fn new(api: Api, config: GrpcConfig, feed: Arc<Feed>) -> Self {
        let pod_cidrs = pod_cidr::PodCidrs::new(&config.cluster_cidrs);
        Self { api, config, feed, events: events::Aggregator::default(), pod_cidrs }
    }

    /// As whom a node's writes are made.
    fn caller(node: &str) -> Caller {
        Caller { user: format!("system:node:{node}"), groups: vec!["system:nodes".to_owned()] }
    }
}

#[tonic::async_trait]
impl NodeService for NodeDoor {
    type WatchNodeStream = Pin<Box<dyn Stream<Item = Result<NodeEvent, Status>> + Send>>;

    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        authority::named(&request, &request.get_ref().name)?;
        self.register_node(request.into_inner()).await.map(Response::new)
    }

    async fn watch_node(&self, request: Request<WatchNodeRequest>) -> Result<Response<Self::WatchNodeStream>, Status> {
        let WatchNodeRequest { name, resume_revision } = request.get_ref();
        authority::named(&request, name)?;
        let stream = watch::stream(Arc::clone(&self.feed), name.clone(), *resume_revision);
        Ok(Response::new(Box::pin(stream)))
    }

    async fn report_pod_status(
        &self,
        request: Request<ReportPodStatusRequest>,
    ) -> Result<Response<ReportPodStatusResponse>, Status> {
        let node = authority::node(&request)?;
        self.write_pod_statuses(&node, request.into_inner()).await.map(Response::new)
    }

    async fn report_node_status(
        &self,
        request: Request<ReportNodeStatusRequest>,
    ) -> Result<Response<ReportNodeStatusResponse>, Status> {
        authority::named(&request, &request.get_ref().name)?;
        self.write_node_status(request.into_inner()).await.map(Response::new)
    }

    async fn renew_lease(&self, request: Request<RenewLeaseRequest>) -> Result<Response<RenewLeaseResponse>, Status> {
        authority::named(&request, &request.get_ref().name)?;
        self.write_lease(&request.get_ref().name).await?;
        Ok(Response::new(RenewLeaseResponse {}))
    }

    async fn report_events(
        &self,
        request: Request<ReportEventsRequest>,
    ) -> Result<Response<ReportEventsResponse>, Status> {
        let node = authority::node(&request)?;
        self.record_events(&node, request.into_inner()).await?;
        Ok(Response::new(ReportEventsResponse {}))
    }
}
