//! Skep's own gRPC services: the only place where control and node agent meet. Generated code and nothing else; the
//! `.proto` files beside it are the documentation.

/// `skep.node.v1`: what a node must run, and what it reports.
pub mod node {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("skep.node.v1");
    }
}

/// `skep.dataplane.v1`: what the dataplane of every node must obey.
pub mod dataplane {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("skep.dataplane.v1");
    }
}
