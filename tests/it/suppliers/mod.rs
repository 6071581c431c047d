//! Supplier adapters against servers that misbehave.

mod alibaba1688;
mod alibaba1688_look_up;
mod gate;
