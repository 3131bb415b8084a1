//! Generates the gRPC messages, clients and servers from `proto/`.

fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        .bytes(".skep.node.v1.Object.json")
        .compile_protos(&["proto/skep_node_v1.proto", "proto/skep_dataplane_v1.proto"], &["proto"])
}
