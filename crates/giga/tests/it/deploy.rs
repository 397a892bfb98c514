//! The files of `deploy/` agree with the program, with the documentation, and with each other. `scripts/check-deploy` checks
//! them with the tools of their formats, and renders the chart.

mod containers;
mod files;
mod kubernetes;
mod services;
mod yaml;
