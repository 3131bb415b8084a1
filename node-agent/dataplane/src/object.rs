//! The embedded kernel object.
