use skep_agent_core::dataplane::Index;
use skep_dataplane::ServiceHits;
use tracing::warn;

/// Removes what programs have counted for endpoint sets that are no more.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// Those of an earlier agent's sets are removed.
    swept: bool,
}

impl Hits {
    pub(super) fn forget(&mut self, index: &mut Index, hits: &ServiceHits) {
        let mut gone = index.take_gone_sets();
        if !self.swept && index.is_synced() {
            // Of sets that went while no agent was there.
            self.swept = true;
            match hits.totals() {
                Ok(totals) => gone.extend(totals.into_iter().map(|(set, _)| set).filter(|set| !index.has_set(*set))),
                Err(problem) => warn!(%problem, "counters of Services"),
            }
        }
        for set in gone {
            if let Err(problem) = hits.remove(set) {
                warn!(set, %problem, "counter of a Service");
            }
        }
    }
}
