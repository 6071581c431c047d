//! The 1688 open platform.
