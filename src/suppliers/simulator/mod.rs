//! A supplier that speaks the 1688 wire protocol over real HTTP: for tests, for the demonstration,
//! and by itself (`stockhold simulate-supplier`). Nothing else in the daemon knows that it is one.
//!
//! A call goes `connection → transport → gateway → wire → shop`: bytes, a call, may it, what does it
//! say, what happens. The shop is pure and moves by the clock it is given; lag, faults, limits and
//! the platform's unknown habits are `settings`; `handle` and `control` are the hands on it.
//!
//! What must hold: it is written from the protocol's description alone and shares no code with the
//! adapter, so that each checks the other; units bought of it never exceed what it had.
//! Left out: refunds, messages (push), and several sellers in one basket (refused, as by create).

mod api;
mod basket;
mod connection;
mod control;
mod faults;
mod gateway;
mod handle;
pub mod length;
mod offers;
mod order;
mod server;
pub mod settings;
mod shelf;
mod shop;
mod signature;
mod tally;
mod tokens;
mod transport;
mod wire;

pub use api::Api;
pub use faults::Fault;
pub use offers::{Offer, Spec};
pub use order::{By, Closing, Line, Order, Status};
pub use server::{Error, Handle, Simulator, run, serve_cli};
pub use settings::{
    Buyers, Chance, Conduct, CountsAt, ProductShape, ReferenceIn, Repeated, Settings, Shortage,
    Trade,
};
pub use shelf::Account;
pub use shop::{BookEntry, Wrong};
pub use signature::{Sorting, sign};
pub use tally::{Count, Record};
