//! Manifests that several tests apply.

use crate::image;

/// A Deployment of the demo server: 8080, a readiness probe, and three seconds of service after SIGTERM, as every server needs that
/// is to lose no request when it is replaced.
pub fn deployment(name: &str, replicas: usize) -> String {
    format!(
        r#"apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels: {{app: {name}}}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      containers:
      - name: server
        image: {image}
        args: [serve, --port, "8080", --drain, "3"]
        ports:
        - {{name: http, containerPort: 8080}}
        readinessProbe:
          httpGet: {{path: /, port: http}}
          periodSeconds: 1
"#,
        image = image::DEMO_V1
    )
}

/// A dual-stack Service of a [`deployment`]: TCP and UDP 80.
pub fn service(name: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  ipFamilyPolicy: RequireDualStack
  selector: {{app: {name}}}
  ports:
  - {{name: http, port: 80, targetPort: http, protocol: TCP}}
  - {{name: datagram, port: 80, targetPort: 8080, protocol: UDP}}
"#
    )
}

/// A pod with the demo server on 8080, on a node, labelled `app: <name>`.
pub fn server(name: &str, node: &str) -> String {
    client(name, node, &format!("app: {name}")).replace("args: [pause]", r#"args: [serve, --port, "8080"]"#)
}

/// A pod that does nothing: a place to run clients in.
pub fn client(name: &str, node: &str, labels: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{{labels}}}
spec:
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  terminationGracePeriodSeconds: 1
  containers:
  - name: client
    image: {image}
    args: [pause]
"#,
        image = image::DEMO_V1
    )
}

/// Several manifests as one; each may or may not end with a line end.
pub fn join<const N: usize>(manifests: [String; N]) -> String {
    manifests.join("\n---\n")
}
