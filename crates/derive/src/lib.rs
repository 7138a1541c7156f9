//! `#[derive(Module)]`, written against bare token streams so that depending on frit costs no parser crates.
//!
//! ```text
//! #[derive(Module)]                 impl ::frit::nn::Module for Net {
//! struct Net {                          fn visit(&self, path, f) {
//!     conv: Conv2d,          ->             ::frit::nn::visit_field(&self.conv, path, "conv", f);
//!     depth: usize,                         ::frit::nn::visit_field(&self.depth, path, "depth", f);
//! }                                 }   }
//! ```
//!
//! Fields are visited in the order they are written, plain configuration included: its `visit` does nothing. Two
//! attributes change that: `#[module(skip)]` on a field leaves it out, `#[module(crate = path)]` on the struct names
//! where the trait lives for those who do not depend on the crate `frit`.

#![forbid(unsafe_code)]

mod parse;

use parse::{Field, Struct};
use proc_macro::{Delimiter, Group, Span, TokenStream, TokenTree};

/// Implements `frit::nn::Module` by visiting every field in order under its name.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    match parse::parse(input) {
        Ok(s) => implement(&s),
        Err((span, message)) => respan(tokens(&format!("::core::compile_error!({message:?});")), span),
    }
}

fn implement(s: &Struct) -> TokenStream {
    let home = s.home.clone().unwrap_or_else(default_home);
    let visited: Vec<&Field> = s.fields.iter().filter(|f| !f.skip).collect();

    let mut body = tokens("let _ = (path, &f);");
    for f in &visited {
        let mut call = home.clone();
        let label = f.name.strip_prefix("r#").unwrap_or(&f.name);
        call.extend(tokens(&format!("::visit_field(&self.{}, path, {label:?}, f);", f.name)));
        body.extend(respan(call, f.span));
    }

    let mut visit = tokens("fn visit");
    let mut signature = tokens("&self, path: &str, f: &mut dyn ::core::ops::FnMut");
    let mut closure = tokens("&str, &");
    closure.extend(home.clone());
    closure.extend(tokens("::Tensor"));
    signature.extend([group(Delimiter::Parenthesis, closure)]);
    visit.extend([group(Delimiter::Parenthesis, signature), group(Delimiter::Brace, body)]);

    let mut out = tokens("#[automatically_derived] impl <");
    out.extend(s.parameters.clone());
    out.extend(tokens(">"));
    out.extend(home.clone());
    out.extend(tokens("::Module for"));
    out.extend([s.name.clone()]);
    out.extend(tokens("<"));
    out.extend(s.arguments.clone());
    out.extend(tokens("> where"));
    out.extend(s.predicates.clone());
    // Only types that mention a parameter need a bound: `PhantomData<T>` asks nothing of `T`.
    for f in visited.iter().filter(|f| f.generic) {
        out.extend(f.ty.clone());
        out.extend(tokens(":"));
        out.extend(home.clone());
        out.extend(tokens("::Module,"));
    }
    out.extend([group(Delimiter::Brace, visit)]);
    out
}

/// Where the trait lives: people depend on the facade; only the crate that has the trait goes without.
fn default_home() -> TokenStream {
    let inside = std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name == "frit-nn");
    tokens(if inside { "::frit_nn" } else { "::frit::nn" })
}

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap_or_else(|_| TokenStream::new())
}

fn group(delimiter: Delimiter, inner: TokenStream) -> TokenTree {
    TokenTree::Group(Group::new(delimiter, inner))
}

/// The same tokens, so that the compiler's messages point at `span`.
fn respan(stream: TokenStream, span: Span) -> TokenStream {
    let respan_tree = |mut t: TokenTree| {
        if let TokenTree::Group(g) = &t {
            t = group(g.delimiter(), respan(g.stream(), span));
        }
        t.set_span(Span::call_site().located_at(span));
        t
    };
    stream.into_iter().map(respan_tree).collect()
}
