//! A supplier that speaks the 1688 wire protocol over real HTTP.
