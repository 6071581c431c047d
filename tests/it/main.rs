//! The one integration binary: each folder is a suite.

mod blackbox;
mod conformance;
mod coordination;
mod demo;
mod faults;
mod jobs;
mod proxy;
mod replicas;
mod simulation;
mod suppliers;
mod tidy;
