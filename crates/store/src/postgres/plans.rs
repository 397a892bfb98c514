//! Every statement finds its rows through an index.
