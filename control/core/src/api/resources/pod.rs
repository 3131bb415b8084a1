//! Pods.

use crate::api::access::{carry, child, remove, set, text};
use crate::api::field::Path;
use crate::api::pod;
use crate::api::resource::{Resource, Strategy, Subresource, Verb};
use crate::api::table::Column;

pub(crate) static POD: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    categories: &["all"],
    namespaced: true,
    verbs: Verb::ALL,
    subresources: &[Subresource::Status, Subresource::Binding, Subresource::Log],
    storage: "pods",
    strategy: Strategy {
        default: pod::default_pod,
        prepare_create: |object| {
            pod::admit(object);
            let class = pod::qos_class(&object["spec"]);
            remove(object, "status");
            let status = child(object, "status");
            set(status, "phase", "Pending");
            set(status, "qosClass", class);
        },
        prepare_update: |new, old| carry(new, old, "status"),
        validate: |object, faults| pod::validate_spec(&object["spec"], &Path::new("spec"), faults),
        validate_update: pod::validate_change,
        generation: false,
        grace: |object, asked| {
            let spec = &object["spec"];
            let ended = matches!(text(&object["status"]["phase"]), "Succeeded" | "Failed");
            // Nobody is there who could end it gracefully.
            if text(&spec["nodeName"]).is_empty() || ended {
                return 0;
            }
            match asked.or(spec["terminationGracePeriodSeconds"].as_i64()) {
                Some(seconds) if seconds < 0 => 1,
                Some(seconds) => seconds,
                None => 30,
            }
        },
        returns_deleted: true,
        ..Strategy::PLAIN
    },
    columns: &[
        Column::NAME,
        Column::new("Ready", "string"),
        Column::new("Status", "string"),
        Column::new("Restarts", "string"),
        Column::AGE,
        Column::wide("IP", "string"),
        Column::wide("Node", "string"),
        Column::wide("Nominated Node", "string"),
        Column::wide("Readiness Gates", "string"),
    ],
    row: pod::row,
    selectable: &[
        ("spec.nodeName", |o| text(&o["spec"]["nodeName"]).into()),
        ("spec.restartPolicy", |o| text(&o["spec"]["restartPolicy"]).into()),
        ("spec.schedulerName", |o| text(&o["spec"]["schedulerName"]).into()),
        ("spec.serviceAccountName", |o| text(&o["spec"]["serviceAccountName"]).into()),
        ("spec.hostNetwork", |o| (o["spec"]["hostNetwork"] == true).to_string()),
        ("status.phase", |o| text(&o["status"]["phase"]).into()),
        ("status.podIP", |o| text(&o["status"]["podIP"]).into()),
        ("status.nominatedNodeName", |o| text(&o["status"]["nominatedNodeName"]).into()),
    ],
};
