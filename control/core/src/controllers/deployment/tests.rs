use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::DeploymentSpec;
use serde_json::{Value, json};

use super::rolling::Bounds;
use super::{Deployments, template};
use crate::api::Subresource;
use crate::controllers::testing::{World, deployment};
use crate::controllers::{Action, Controller, Index, Key, Kind, Outcome, Turn, Write};

/// A world in which only the Deployment controller acts; tests play the `ReplicaSet` controller.
struct Scene {
    world: World,
    key: Key,
}

impl Scene {
    fn new(value: Value) -> Self {
        let mut world = World::new();
        let key = world.must(value);
        Self { world, key }
    }

    fn index(&self) -> Index {
        let mut index = Index::default();
        index.apply(self.world.listing(), self.world.now);
        index
    }

    fn outcome(&self) -> Outcome {
        Deployments.reconcile(&self.key, &self.index(), Turn { now: self.world.now, seed: 1 })
    }

    /// Reconciles until nothing is left to do; gives the messages of the Events.
    fn run(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        for _ in 0..20 {
            let outcome = self.outcome();
            if outcome.actions.is_empty() {
                return messages;
            }
            for Action { write, done, .. } in outcome.actions {
                self.world.write(&write).unwrap_or_else(|status| panic!("{}: {write:?}", status.message));
                messages.extend(done.map(|note| note.message));
            }
        }
        panic!("does not settle");
    }

    fn sets(&self) -> Vec<(Key, Value)> {
        self.world.values(Kind::ReplicaSet).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Every set gets its pods, of which so many are available at most.
    fn populate(&mut self, available: i64) {
        for (key, set) in self.sets() {
            let replicas = set["spec"]["replicas"].as_i64().unwrap_or_default();
            let available = replicas.min(available);
            let status = json!({"status": {
                "replicas": replicas, "readyReplicas": available, "availableReplicas": available,
                "observedGeneration": set["metadata"]["generation"],
            }});
            self.world.merge(&key, Some(Subresource::Status), &status).expect("a status");
        }
    }

    fn set_image(&mut self, image: &str) {
        self.patch(json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}));
    }

    fn patch(&mut self, body: Value) {
        self.world.merge(&self.key, None, &body).expect("a patch");
    }

    fn deployment(&self) -> &Value {
        self.world.value(&self.key).expect("is there")
    }

    fn condition(&self, kind: &str) -> (String, String, String) {
        let conditions = self.deployment()["status"]["conditions"].as_array().expect("conditions");
        let condition = conditions.iter().find(|condition| condition["type"] == kind).expect("the condition");
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    /// Replicas of the sets by image.
    fn sizes(&self) -> Vec<(String, i64)> {
        let sets = self.sets().into_iter().map(|(_, set)| {
            let image =
                set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
            (image, set["spec"]["replicas"].as_i64().unwrap_or_default())
        });
        let mut sizes: Vec<(String, i64)> = sets.collect();
        sizes.sort();
        sizes
    }

    fn name_of(&self, image: &str) -> String {
        let found =
            self.sets().into_iter().find(|(_, set)| set["spec"]["template"]["spec"]["containers"][0]["image"] == image);
        found.expect("the set").0.name
    }
}

fn sizes(list: &[(&str, i64)]) -> Vec<(String, i64)> {
    list.iter().map(|(image, size)| ((*image).to_owned(), *size)).collect()
}

#[test]
fn bounds_resolve_percentages_up_for_surge_and_down_for_unavailable() {
    let bounds = |replicas: i32, rolling: Value| {
        let spec: DeploymentSpec = serde_json::from_value(json!({
            "replicas": replicas, "selector": {}, "template": {},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        }))
        .expect("a spec");
        let bounds = Bounds::of(&spec);
        (bounds.max_surge, bounds.max_unavailable)
    };
    for (replicas, rolling, expected) in [
        (4, json!(null), (1, 1)),
        (3, json!(null), (1, 0)),
        (10, json!({"maxSurge": "25%", "maxUnavailable": "25%"}), (3, 2)),
        (10, json!({"maxSurge": 0, "maxUnavailable": 0}), (0, 1)),
        (10, json!({"maxSurge": 0, "maxUnavailable": "5%"}), (0, 1)),
        (2, json!({"maxSurge": "100%", "maxUnavailable": 5}), (2, 2)),
        (0, json!({"maxSurge": "100%", "maxUnavailable": "100%"}), (0, 0)),
    ] {
        assert_eq!(bounds(replicas, rolling.clone()), expected, "{replicas} {rolling}");
    }
}

#[test]
fn the_hash_is_stable_and_ignores_its_own_label() {
    let template = |value: Value| serde_json::from_value(value).expect("a template");
    let plain = template(
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}),
    );
    let labelled = template(json!({
        "metadata": {"labels": {"app": "web", "pod-template-hash": "xyz"}},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }));
    // The name of a revision must not change with a new version of this program.
    assert_eq!(template::hash(&plain, None), template::hash(&labelled, None));
    assert_eq!(template::hash(&plain, None), "qrc6rgd");
    assert_ne!(template::hash(&plain, None), template::hash(&plain, Some(1)));
}

#[test]
fn a_new_deployment_gets_a_set_and_says_so() {
    let mut scene = Scene::new(deployment("web", 3));
    let messages = scene.run();
    let (key, set) = scene.sets().remove(0);
    assert_eq!(messages, [format!("Scaled up replica set {} from 0 to 3", key.name)]);
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().expect("a hash");
    assert_eq!(key.name, format!("web-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"], json!({"app": "web", "pod-template-hash": hash}));
    assert_eq!(set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"], hash);
    let annotations = &set["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "1");
    assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "4");
    let owner = &set["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Deployment"), &json!(true)));
    assert_eq!(scene.deployment()["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(
        scene.condition("Progressing"),
        ("True".into(), "NewReplicaSetCreated".into(), format!("Created new replica set \"{}\"", key.name))
    );
    assert_eq!(
        scene.condition("Available"),
        ("False".into(), "MinimumReplicasUnavailable".into(), "Deployment does not have minimum availability.".into())
    );
}

#[test]
fn status_follows_the_sets() {
    let mut scene = Scene::new(deployment("web", 3));
    scene.run();
    scene.populate(1);
    scene.run();
    let status = &scene.deployment()["status"];
    assert_eq!(status["replicas"], 3);
    assert_eq!(status["updatedReplicas"], 3);
    assert_eq!(status["availableReplicas"], 1);
    assert_eq!(status["unavailableReplicas"], 2);
    assert_eq!(status["observedGeneration"], 1);
    let name = scene.name_of("demo:1");
    let (_, reason, message) = scene.condition("Progressing");
    assert_eq!((reason.as_str(), message), ("ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing.")));
    scene.populate(3);
    scene.run();
    assert_eq!(
        scene.condition("Progressing"),
        ("True".into(), "NewReplicaSetAvailable".into(), format!("ReplicaSet \"{name}\" has successfully progressed."))
    );
    assert_eq!(
        scene.condition("Available"),
        ("True".into(), "MinimumReplicasAvailable".into(), "Deployment has minimum availability.".into())
    );
    assert!(scene.deployment()["status"].get("unavailableReplicas").is_none());
}

#[test]
fn a_rolling_update_goes_step_by_step() {
    let mut scene = Scene::new(deployment("web", 3));
    scene.run();
    scene.populate(3);
    scene.run();
    scene.set_image("demo:2");
    let messages = scene.run();
    let new = scene.name_of("demo:2");
    assert_eq!(messages, [format!("Scaled up replica set {new} from 0 to 1")]);
    assert_eq!(scene.sizes(), sizes(&[("demo:1", 3), ("demo:2", 1)]));
    for (old_size, new_size) in [(2, 2), (1, 3), (0, 3)] {
        scene.populate(3);
        scene.run();
        scene.populate(3);
        let messages = scene.run();
        assert_eq!(scene.sizes(), sizes(&[("demo:1", old_size), ("demo:2", new_size)]), "{messages:?}");
    }
    scene.populate(3);
    scene.run();
    assert_eq!(scene.condition("Progressing").1, "NewReplicaSetAvailable");
    assert_eq!(scene.deployment()["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
}

#[test]
fn an_undo_reuses_the_old_set_and_renumbers_it() {
    let mut scene = Scene::new(deployment("web", 1));
    for image in ["demo:1", "demo:2"] {
        scene.set_image(image);
        for _ in 0..4 {
            scene.run();
            scene.populate(1);
        }
    }
    // What `kubectl rollout undo` does: the template of the old set without its hash.
    scene.set_image("demo:1");
    for _ in 0..4 {
        scene.run();
        scene.populate(1);
    }
    assert_eq!(scene.sizes(), sizes(&[("demo:1", 1), ("demo:2", 0)]));
    let set = scene.sets().into_iter().find(|(key, _)| key.name == scene.name_of("demo:1")).expect("the set").1;
    let annotations = &set["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(scene.deployment()["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
}

#[test]
fn history_beyond_the_limit_goes() {
    let mut value = deployment("web", 1);
    value["spec"]["revisionHistoryLimit"] = 1.into();
    let mut scene = Scene::new(value);
    for image in ["demo:1", "demo:2", "demo:3", "demo:4"] {
        scene.set_image(image);
        for _ in 0..5 {
            scene.run();
            scene.populate(1);
        }
    }
    assert_eq!(scene.sizes(), sizes(&[("demo:3", 0), ("demo:4", 1)]));
}

#[test]
fn a_stuck_rollout_runs_into_its_deadline() {
    let mut value = deployment("web", 1);
    value["spec"]["progressDeadlineSeconds"] = 30.into();
    let mut scene = Scene::new(value);
    scene.run();
    scene.populate(0);
    scene.run();
    let wait = scene.outcome().requeue_after.expect("looks again");
    assert!(wait <= SignedDuration::from_secs(31), "{wait}");
    scene.world.pass(SignedDuration::from_secs(31));
    scene.run();
    let name = scene.name_of("demo:1");
    assert_eq!(
        scene.condition("Progressing"),
        (
            "False".into(),
            "ProgressDeadlineExceeded".into(),
            format!("ReplicaSet \"{name}\" has timed out progressing.")
        )
    );
    assert_eq!(scene.outcome(), Outcome::idle());
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut scene = Scene::new(deployment("web", 2));
    scene.run();
    scene.populate(2);
    scene.run();
    scene.patch(json!({"spec": {"paused": true}}));
    scene.run();
    assert_eq!(scene.condition("Progressing").1, "DeploymentPaused");
    scene.set_image("demo:2");
    scene.patch(json!({"spec": {"replicas": 4}}));
    scene.run();
    assert_eq!(scene.sizes(), sizes(&[("demo:1", 4)]));
    scene.patch(json!({"spec": {"paused": false}}));
    scene.run();
    assert_eq!(scene.sets().len(), 2);
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let mut value = deployment("web", 10);
    value["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    let mut scene = Scene::new(value);
    scene.run();
    scene.populate(10);
    scene.run();
    scene.set_image("demo:2");
    scene.run();
    // The new pods never get ready: 8 of the old and 5 of the new.
    let new = Key::new(Kind::ReplicaSet, "default", scene.name_of("demo:2"));
    for _ in 0..4 {
        scene.populate(10);
        let set = scene.world.value(&new).expect("the set").clone();
        let status =
            json!({"status": {"readyReplicas": 0, "availableReplicas": 0, "replicas": set["spec"]["replicas"]}});
        scene.world.merge(&new, Some(Subresource::Status), &status).expect("a status");
        scene.run();
    }
    assert_eq!(scene.sizes(), sizes(&[("demo:1", 8), ("demo:2", 5)]));
    scene.patch(json!({"spec": {"replicas": 15}}));
    let messages = scene.run();
    // 18 pods may be there: 5 more, shared as 8 to 5.
    assert_eq!(scene.sizes(), sizes(&[("demo:1", 11), ("demo:2", 7)]), "{messages:?}");
}

#[test]
fn recreate_waits_for_old_pods_to_be_gone() {
    let mut value = deployment("web", 1);
    value["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut scene = Scene::new(value);
    scene.run();
    scene.populate(1);
    scene.run();
    let old = scene.sets().remove(0);
    let pod = scene.world.must(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "default", "labels": old.1["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": old.0.name, "uid": old.1["metadata"]["uid"], "controller": true,
            }],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "demo:1"}]},
    }));
    scene.set_image("demo:2");
    scene.run();
    scene.populate(1);
    scene.run();
    assert_eq!(scene.sizes(), sizes(&[("demo:1", 0)]), "the old pod is still there");
    scene.world.remove(&pod);
    scene.run();
    assert_eq!(scene.sizes(), sizes(&[("demo:1", 0), ("demo:2", 1)]));
}

#[test]
fn annotations_and_change_cause_go_to_the_set_but_not_what_kubectl_keeps() {
    let mut value = deployment("web", 1);
    value["metadata"]["annotations"] = json!({
        "kubernetes.io/change-cause": "first", "kubectl.kubernetes.io/last-applied-configuration": "{}",
    });
    let mut scene = Scene::new(value);
    scene.run();
    let annotations = scene.sets().remove(0).1["metadata"]["annotations"].clone();
    assert_eq!(annotations["kubernetes.io/change-cause"], "first");
    assert!(annotations.get("kubectl.kubernetes.io/last-applied-configuration").is_none());
}

#[test]
fn a_set_that_matches_is_adopted_by_a_write_that_names_its_version() {
    let mut scene = Scene::new(deployment("web", 1));
    scene.run();
    let (key, _) = scene.sets().remove(0);
    scene.world.merge(&key, None, &json!({"metadata": {"ownerReferences": null}})).expect("orphans it");
    let outcome = scene.outcome();
    let [Action { write: Write::Patch { target, patch, .. }, .. }] = outcome.actions.as_slice() else {
        panic!("{outcome:?}")
    };
    assert_eq!(*target, key);
    assert_eq!(patch["metadata"]["ownerReferences"][0]["name"], "web");
    assert!(patch["metadata"]["resourceVersion"].is_string());
    scene.run();
    assert_eq!(scene.sets().len(), 1);
}
