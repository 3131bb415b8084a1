//! Times in objects.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The time as it is written into objects: whole seconds, so that what was written compares equal to what is read back.
pub(crate) fn written(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
