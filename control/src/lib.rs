//! The control service: Kubernetes REST and Skep gRPC on one port, over one store.

pub mod api;
pub mod cidr;
pub mod config;
pub mod controllers;
pub mod durable;
pub mod grpc;
pub mod pki;
pub mod rest;
pub mod serve;
pub mod server;
pub mod tls;

/// The store that the service runs on.
pub type Backend = skep_store::RedbStore;
