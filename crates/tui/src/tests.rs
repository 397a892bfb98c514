//! Golden screens: every page in several sizes and states; what reaches the terminal, byte by byte.

mod bytes;
mod fixtures;
mod keys;
mod screens;
