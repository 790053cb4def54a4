//! `forward`: options, limits, places.
