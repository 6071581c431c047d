//! Suppliers: the adapter against servers that misbehave, the simulator over real HTTP, and the
//! one against the other.

mod adapter_simulator;
mod alibaba1688;
mod alibaba1688_look_up;
mod caller;
mod gate;
mod open1688;
mod simulator;
mod simulator_control;
mod simulator_faults;
