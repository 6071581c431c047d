//! The pure core played for weeks of simulated time: a storage that loads only what is named,
//! suppliers that lag and fail, workers that die, and an audit after every step.

mod audit;
mod bench;
mod buying;
mod cases;
mod dice;
mod driver;
mod judging;
mod memory;
mod overdue;
mod pausing;
mod random;
mod script;
mod shop;
mod stage;
