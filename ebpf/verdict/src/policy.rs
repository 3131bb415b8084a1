//! The bit-vector classifier.
