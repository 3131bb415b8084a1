//! The Service `kube-dns` in kube-system: the addresses at which every node answers for the cluster's names.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Namespace, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Settings;
use super::action::{Outcome, Write};
use super::engine::{Controller, Turn};
use super::index::{Index, Touched, selector_of};
use super::kind::{Key, Kind};
use super::object::Typed;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-dns";
/// By this label NetworkPolicies tell cluster DNS from everything else.
const APP: (&str, &str) = ("k8s-app", "kube-dns");

/// Keeps the Service `kube-dns`. It has no selector and no endpoints: the nodes answer themselves.
///
/// One with a selector is an administrator's own, and is left alone.
#[derive(Debug)]
pub(super) struct DnsService {
    addresses: Vec<IpAddr>,
}

impl DnsService {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { addresses: settings.dns_addresses.clone() }
    }

    fn spec(&self) -> ServiceSpec {
        let texts: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let family = |address: &IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" }.to_owned();
        let policy = if self.addresses.len() > 1 { "RequireDualStack" } else { "SingleStack" };
        ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: texts.first().cloned(),
            cluster_ips: Some(texts),
            ip_families: Some(self.addresses.iter().map(family).collect()),
            ip_family_policy: Some(policy.to_owned()),
            ports: Some(vec![port("dns", "UDP"), port("dns-tcp", "TCP")]),
            ..ServiceSpec::default()
        }
    }
}

fn port(name: &str, protocol: &str) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: 53,
        protocol: Some(protocol.to_owned()),
        target_port: Some(IntOrString::Int(53)),
        ..ServicePort::default()
    }
}

fn key() -> Key {
    Key::new(Kind::Service, NAMESPACE, NAME)
}

impl Controller for DnsService {
    fn name(&self) -> &'static str {
        "cluster-dns"
    }

    fn initial(&self) -> Vec<Key> {
        vec![key()]
    }

    fn affected(&self, touched: &Touched, _index: &Index) -> Vec<Key> {
        let home = touched.key.kind == Kind::Namespace && touched.key.name == NAMESPACE;
        if home || touched.key == key() { vec![key()] } else { Vec::new() }
    }

    fn reconcile(&self, _key: &Key, index: &Index, _turn: Turn) -> Outcome {
        let mut outcome = Outcome::idle();
        let home = index.get::<Namespace>("", NAMESPACE);
        if self.addresses.is_empty() || home.is_none_or(|home| home.metadata.deletion_timestamp.is_some()) {
            return outcome;
        }
        let wanted = self.spec();
        let Some(known) = index.get::<Service>(NAMESPACE, NAME) else {
            let labels = [APP, ("kubernetes.io/cluster-service", "true")];
            let metadata = ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                ..ObjectMeta::default()
            };
            let service = Service { metadata, spec: Some(wanted), status: None };
            outcome.act(Write::Create(service.into_object()));
            return outcome;
        };
        let Some(spec) = known.spec.as_ref() else { return outcome };
        // An address cannot change; a Service at another one is not of this making.
        if selector_of(known).is_some() || spec.cluster_ip != wanted.cluster_ip {
            return outcome;
        }
        let mut draft = known.as_ref().clone();
        let (app, value) = APP;
        draft.metadata.labels.get_or_insert_default().insert(app.to_owned(), value.to_owned());
        if let Some(spec) = &mut draft.spec {
            spec.cluster_ips = wanted.cluster_ips;
            spec.ip_families = wanted.ip_families;
            spec.ip_family_policy = wanted.ip_family_policy;
            spec.ports = wanted.ports;
        }
        if draft != **known {
            outcome.act(Write::Update(draft.into_object()));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::DeleteOptions;
    use crate::controllers::simulation::settings;
    use crate::controllers::testing::World;

    fn settle(world: &mut World, addresses: &[&str]) -> usize {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address")).collect();
        let controller = DnsService::new(&Settings { dns_addresses: addresses, ..settings() });
        for writes in 0..5 {
            let mut index = Index::default();
            index.apply(world.listing(), world.now);
            let outcome = controller.reconcile(&key(), &index, Turn { now: world.now, seed: 1 });
            if outcome.actions.is_empty() {
                return writes;
            }
            for action in outcome.actions {
                world.write(&action.write).unwrap_or_else(|status| panic!("{}: {:?}", status.message, action.write));
            }
        }
        panic!("does not settle");
    }

    fn world() -> World {
        let mut world = World::new();
        world.must(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}));
        world
    }

    fn spec(world: &World) -> Value {
        world.value(&key()).expect("the Service")["spec"].clone()
    }

    #[test]
    fn it_is_made_in_both_families_and_made_again() {
        let mut world = World::new();
        assert_eq!(settle(&mut world, &["10.96.0.10"]), 0, "there is no namespace for it");
        let mut world = self::world();
        assert_eq!(settle(&mut world, &["10.96.0.10", "fd53::a"]), 1);
        let made = spec(&world);
        assert_eq!(
            (&made["clusterIP"], &made["clusterIPs"]),
            (&json!("10.96.0.10"), &json!(["10.96.0.10", "fd53::a"]))
        );
        assert_eq!(
            (&made["ipFamilies"], &made["ipFamilyPolicy"]),
            (&json!(["IPv4", "IPv6"]), &json!("RequireDualStack"))
        );
        let ports = made["ports"].as_array().expect("ports").iter();
        let ports: Vec<_> = ports.map(|p| (p["name"].clone(), p["port"].clone(), p["protocol"].clone())).collect();
        assert_eq!(ports, [(json!("dns"), json!(53), json!("UDP")), (json!("dns-tcp"), json!(53), json!("TCP"))]);
        assert_eq!(world.value(&key()).expect("the Service")["metadata"]["labels"]["k8s-app"], "kube-dns");
        world.delete(&key(), &DeleteOptions::default()).expect("deletes");
        assert_eq!(settle(&mut world, &["10.96.0.10", "fd53::a"]), 1);
    }

    #[test]
    fn changes_are_taken_back_and_a_second_family_is_added() {
        let mut world = self::world();
        settle(&mut world, &["10.96.0.10"]);
        assert_eq!(spec(&world)["ipFamilyPolicy"], "SingleStack");
        let made = spec(&world);
        world.merge(&key(), None, &json!({"spec": {"ports": [{"port": 54}]}})).expect("a change");
        assert_eq!(settle(&mut world, &["10.96.0.10"]), 1);
        assert_eq!(spec(&world), made);
        settle(&mut world, &["10.96.0.10", "fd53::a"]);
        assert_eq!(spec(&world)["clusterIPs"], json!(["10.96.0.10", "fd53::a"]));
    }

    #[test]
    fn an_administrators_own_is_left_alone() {
        for own in [
            json!({"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "selector": {"k8s-app": "kube-dns"}}),
            json!({"clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77"]}),
        ] {
            let mut world = self::world();
            let metadata = json!({"name": NAME, "namespace": NAMESPACE});
            let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": own});
            service["spec"]["ports"] = json!([{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}]);
            world.must(service);
            assert_eq!(settle(&mut world, &["10.96.0.10"]), 0, "{own}");
        }
    }
}
