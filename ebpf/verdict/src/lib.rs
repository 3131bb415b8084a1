//! Pure decisions of the dataplane.
#![no_std]
