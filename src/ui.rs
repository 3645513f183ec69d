//! The dashboard.

pub mod glyphs;
pub mod theme;
