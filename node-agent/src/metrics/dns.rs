use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::rows;
use crate::dns::Dns;

/// What cluster DNS counts.
pub(super) struct DnsMetrics(pub(super) Dns);

impl fmt::Debug for DnsMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DnsMetrics").finish_non_exhaustive()
    }
}

impl Collector for DnsMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let status = self.0.status();
        let counts = &status.counts;
        let by_type = counts.queries.iter().map(|(name, count)| ([("type", *name)], *count));
        rows::counters(encoder, "dns_queries", "Questions, by type of record", by_type)?;
        let by_code = counts.answers.iter().map(|(name, count)| ([("code", *name)], *count));
        rows::counters(encoder, "dns_answers", "Answers, by response code", by_code)?;
        for (name, help, count) in [
            ("dns_tcp_queries", "Questions that came over TCP", counts.tcp_queries),
            ("dns_noise", "Messages that cannot be answered", counts.noise),
            ("dns_truncated", "Answers that were cut because they are too long for UDP", counts.truncated),
            ("dns_cache_hits", "Questions to which a kept answer of another server was given", counts.cache_hits),
            ("dns_cache_misses", "Questions to which there was no kept answer", counts.cache_misses),
            ("dns_shared_queries", "Questions that waited for the answer to an identical one", counts.shared_queries),
            ("dns_upstream_queries", "Messages to other name servers", counts.upstream_queries),
            (
                "dns_upstream_timeouts",
                "Messages to other name servers that were not answered in time",
                counts.upstream_timeouts,
            ),
            ("dns_upstream_errors", "Messages to other name servers that failed otherwise", counts.upstream_errors),
            ("dns_upstream_failures", "Questions that no name server answered", counts.upstream_failures),
            ("dns_overload", "Questions that were refused because too many wait", counts.overload),
        ] {
            rows::counter(encoder, name, help, count)?;
        }
        rows::gauge(encoder, "dns_services", "Services that have names", status.services as u64)?;
        rows::gauge(encoder, "dns_cached_answers", "Answers of other name servers that are kept", status.cached as u64)
    }
}
