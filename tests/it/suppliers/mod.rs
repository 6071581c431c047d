//! Suppliers over real HTTP.

mod caller;
mod open1688;
mod simulator;
mod simulator_control;
mod simulator_faults;
