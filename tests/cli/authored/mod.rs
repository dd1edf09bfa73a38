//! What authors of workflow files use: problems for other programs, the schema for editors, the
//! formatter and the language server.

mod fmt;
mod formats;
mod lsp;
mod schema;
