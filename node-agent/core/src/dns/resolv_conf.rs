use std::net::IpAddr;

/// What the agent reads of a `resolv.conf(5)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// Name servers, in the order in which they are to be asked. One with a scope (`fe80::1%eth0`) is left out.
    pub servers: Vec<IpAddr>,
    /// Search domains.
    pub searches: Vec<String>,
}

impl ResolvConf {
    /// Reads the text of the file. Lines that say nothing of use are skipped, as every resolver does.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().and_then(|word| word.parse().ok());
                    conf.servers.extend(server.filter(|server| !conf.servers.contains(server)));
                }
                // The last one counts.
                Some("search" | "domain") => conf.searches = words.map(str::to_owned).collect(),
                _ => {}
            }
        }
        conf
    }
}
