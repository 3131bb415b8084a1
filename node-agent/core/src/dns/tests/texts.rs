//! Domains, search lists, resolv.conf and reverse names.

use proptest::prelude::*;

use super::*;

fn searched(text: &str, further: &[&str]) -> Vec<String> {
    let further: Vec<String> = further.iter().map(|&suffix| suffix.to_owned()).collect();
    candidates(text, "shop", &domain(), &further).iter().map(ToString::to_string).collect()
}

#[test]
fn names_are_searched_as_resolvers_do() {
    assert_eq!(
        searched("web", &["corp.example"]),
        ["web.shop.svc.cluster.local", "web.svc.cluster.local", "web.cluster.local", "web.corp.example", "web",]
    );
    assert_eq!(
        searched("www.example.com", &[]),
        [
            "www.example.com.shop.svc.cluster.local",
            "www.example.com.svc.cluster.local",
            "www.example.com.cluster.local",
            "www.example.com",
        ]
    );
    assert_eq!(searched("_a._b.c.d.e.f", &[])[0], "_a._b.c.d.e.f", "five dots: as it is first");
    assert_eq!(searched("www.example.com.", &["corp.example"]), ["www.example.com"]);
    assert_eq!(searched("", &[]), Vec::<String>::new());
    assert_eq!(searched("a..b", &[]), Vec::<String>::new());
    // Too long with any suffix.
    let long = [["a"; 63].concat().as_str(); 3].join(".") + "." + &"b".repeat(50);
    assert_eq!(searched(&long, &[]), [long.as_str()]);
}

#[test]
fn a_domain_is_a_dns_name() {
    let new = |text: &str| Domain::new(text, Vec::new());
    assert_eq!(new("Cluster.Local.").unwrap(), new("cluster.local").unwrap());
    for text in ["", ".", "a..b", "-a.local", "a_b", "a.local-", &"a".repeat(64), &["a"; 65].join(".")] {
        let problem = new(text).unwrap_err().to_string();
        assert!(problem.starts_with("cluster domain"), "{problem}");
    }
}

#[test]
fn resolv_conf_is_read_as_everybody_does() {
    let text = "# made by hand\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n nameserver\t2001:db8::1\nnameserver x\n\
                nameserver 192.0.2.1\nsearch a.example b.example\ndomain c.example\noptions ndots:2\nnameserver";
    let conf = ResolvConf::parse(text);
    assert_eq!(conf.servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.1", "2001:db8::1"]);
    assert_eq!(conf.searches, ["c.example"]);
}

#[test]
fn odd_addresses_have_labels_too() {
    for (addr, label) in [("::ffff:192.0.2.1", "0-0-0-0-0-ffff-c000-201"), ("::1", "--1"), ("::", "--")] {
        let addr = addr.parse().unwrap();
        assert_eq!(crate::dns::reverse::dashed(addr), label);
        assert_eq!(crate::dns::reverse::undashed(label.as_bytes()), Some(addr));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reverse_names_and_labels_lead_back(addr: std::net::IpAddr) {
        let reverse = Name::reverse_from_addr(addr).unwrap();
        prop_assert_eq!(address_of(&reverse), Some(addr));
        let label = crate::dns::reverse::dashed(addr);
        prop_assert_eq!(crate::dns::reverse::undashed(label.as_bytes()), Some(addr));
    }

    #[test]
    fn no_text_makes_it_stumble(text in "\\PC{0,80}", namespace in "\\PC{0,20}") {
        let _any = candidates(&text, &namespace, &domain(), std::slice::from_ref(&text));
        let _any = Domain::new(&text, Vec::new());
        let _any = ResolvConf::parse(&text);
    }
}
