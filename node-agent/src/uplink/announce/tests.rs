use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use super::*;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

#[test]
fn frames_name_address_and_mac() {
    let arp = gratuitous_arp(Ipv4Addr::new(192, 0, 2, 7), MAC);
    assert_eq!(arp[..14], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 8, 6]);
    assert_eq!((&arp[22..28], &arp[28..32], &arp[38..]), (&MAC.0[..], &[192, 0, 2, 7][..], &[192, 0, 2, 7][..]));
    let advertisement = unsolicited_advertisement("2001:db8::7".parse().unwrap(), MAC);
    assert_eq!(advertisement.len(), 86);
    assert_eq!((advertisement[54], advertisement[58]), (136, 0x20));
    assert_eq!(advertisement[80..], MAC.0);
}

fn ip(args: &str) -> String {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn neighbours_learn_where_an_address_has_gone() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root for network namespaces");
        return;
    }
    // A thread of its own: the namespace ends with it.
    let learnt = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        ip("link add here type veth peer name there");
        ip("link set here up");
        ip("link set there up");
        ip("addr add 192.0.2.1/24 dev there");
        ip("addr add 2001:db8::1/64 dev there nodad");
        // What was true before.
        for addr in ["192.0.2.7", "2001:db8::7"] {
            ip(&format!("neigh add {addr} lladdr 02:00:00:00:00:01 nud stale dev there"));
        }
        let here = nix::net::if_::if_nametoindex("here").unwrap();
        let announcer = Announcer::open(here, MAC).unwrap();
        assert!(ip("-d link show dev here").contains("allmulti 1"));
        for addr in ["192.0.2.7", "2001:db8::7"] {
            announcer.announce(addr.parse().unwrap()).unwrap();
        }
        [ip("neigh show 192.0.2.7 dev there"), ip("neigh show 2001:db8::7 dev there")]
    });
    for entry in learnt.join().unwrap() {
        assert!(entry.contains(&MAC.to_string()), "{entry}");
    }
}
