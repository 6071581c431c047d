//! Several daemons on one PostgreSQL and one Redis, and what becomes of them when the ways between
//! them are cut, slow or silent, when one dies or stands still, and when their clocks differ. What
//! holds is read from the tables and from the supplier's own book, never asked of a daemon.

mod commits;
mod crowd;
mod deaths;
mod flash;
mod fleet;
mod front;
mod mixed;
mod outages;
mod rolling;
mod schedules;
mod shop;
mod skew;
mod stalls;
mod traffic;
