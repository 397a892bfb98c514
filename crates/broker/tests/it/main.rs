//! The adapters against the suite, and each against what only it promises.

mod embedded;
