//! A struct's tokens in, its name, generics and fields out.
//!
//! ```text
//! pub struct Net<const N: usize, T: Layer = Linear>(Conv2d, [T; N]) where T: Clone;
//! ```
//!
//! gives the parameters `const N: usize, T: Layer`, the arguments `N, T`, the predicates `T: Clone,` and two fields.

use proc_macro::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};
use std::iter::Peekable;

/// What a derive needs to know about a struct.
pub struct Struct {
    /// Its identifier.
    pub name: TokenTree,
    /// Generic parameters with bounds, without defaults.
    pub parameters: TokenStream,
    /// The same parameters as arguments.
    pub arguments: TokenStream,
    /// The `where` clause without its keyword, with a comma at the end if there is one.
    pub predicates: TokenStream,
    /// `#[module(crate = ...)]`.
    pub home: Option<TokenStream>,
    /// In the order they are written.
    pub fields: Vec<Field>,
}

/// One field.
pub struct Field {
    /// Identifier, or position in a tuple struct.
    pub name: String,
    /// Where it is written.
    pub span: Span,
    /// Its type.
    pub ty: TokenStream,
    /// Does the type mention a generic parameter?
    pub generic: bool,
    /// `#[module(skip)]`.
    pub skip: bool,
}

type Result<T> = std::result::Result<T, (Span, String)>;
type Tokens = Peekable<proc_macro::token_stream::IntoIter>;

/// The struct, or what stands in its place and where.
pub fn parse(input: TokenStream) -> Result<Struct> {
    let mut it = input.into_iter().peekable();
    let attributes = attributes(&mut it)?;
    skip_visibility(&mut it);
    match it.next() {
        Some(TokenTree::Ident(word)) if word.to_string() == "struct" => {}
        other => {
            return err(other.as_ref(), "Module can be derived for structs only; implement it by hand here");
        }
    }
    let name = match it.next() {
        Some(name @ TokenTree::Ident(_)) => name,
        other => return err(other.as_ref(), "expected the struct's name"),
    };
    let generics = generics(&mut it);
    let mut predicates = predicates(&mut it);
    let mut fields = Vec::new();
    if let Some(TokenTree::Group(g)) = it.next() {
        fields = match g.delimiter() {
            Delimiter::Brace => named_fields(&g, &generics.types)?,
            _ => tuple_fields(&g, &generics.types)?,
        };
        if g.delimiter() == Delimiter::Parenthesis {
            predicates = self::predicates(&mut it);
        }
    }
    let Generics { parameters, arguments, .. } = generics;
    Ok(Struct { name, parameters, arguments, predicates, home: attributes.home, fields })
}

#[derive(Default)]
struct Attributes {
    skip: bool,
    home: Option<TokenStream>,
}

/// Reads past attributes, keeping what `#[module(..)]` says.
fn attributes(it: &mut Tokens) -> Result<Attributes> {
    let mut out = Attributes::default();
    while it.next_if(|t| is_punct(t, '#')).is_some() {
        let Some(TokenTree::Group(brackets)) = it.next() else { break };
        let mut inner = brackets.stream().into_iter();
        let (Some(path), Some(TokenTree::Group(args))) = (inner.next(), inner.next()) else { continue };
        if path.to_string() != "module" {
            continue;
        }
        let mut words = args.stream().into_iter();
        match words.next() {
            Some(word) if word.to_string() == "skip" => out.skip = true,
            Some(word) if word.to_string() == "crate" => {
                out.home = Some(words.skip(1).collect());
            }
            other => return err(other.as_ref(), "module(..) knows `skip` and `crate = path`"),
        }
    }
    Ok(out)
}

fn skip_visibility(it: &mut Tokens) {
    if it.next_if(|t| t.to_string() == "pub").is_some() {
        it.next_if(|t| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Parenthesis));
    }
}

#[derive(Default)]
struct Generics {
    parameters: TokenStream,
    arguments: TokenStream,
    /// Names of the type parameters.
    types: Vec<String>,
}

fn generics(it: &mut Tokens) -> Generics {
    let mut out = Generics::default();
    if it.next_if(|t| is_punct(t, '<')).is_none() {
        return out;
    }
    loop {
        let parameter = until(it, &[',', '>']);
        let closed = it.next().is_none_or(|t| is_punct(&t, '>'));
        let mut tokens = parameter.into_iter().peekable();
        if tokens.peek().is_some() {
            while tokens.next_if(|t| is_punct(t, '#')).is_some() {
                tokens.next();
            }
            let without_default = until(&mut tokens, &['=']);
            out.parameters.extend(without_default.clone());
            out.parameters.extend([comma()]);
            let mut words = without_default.into_iter();
            match words.next() {
                Some(quote) if is_punct(&quote, '\'') => {
                    out.arguments.extend([quote].into_iter().chain(words.next()))
                }
                Some(word) if word.to_string() == "const" => out.arguments.extend(words.next()),
                Some(name) => {
                    out.types.push(name.to_string());
                    out.arguments.extend([name]);
                }
                None => {}
            }
            out.arguments.extend([comma()]);
        }
        if closed {
            return out;
        }
    }
}

/// Reads a `where` clause up to the struct's body or its end.
fn predicates(it: &mut Tokens) -> TokenStream {
    let mut out = Vec::new();
    if it.next_if(|t| t.to_string() == "where").is_some() {
        let body = |t: &TokenTree| {
            is_punct(t, ';') || matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
        };
        while let Some(t) = it.next_if(|t| !body(t)) {
            out.push(t);
        }
        if out.last().is_some_and(|t| !is_punct(t, ',')) {
            out.push(comma());
        }
    }
    out.into_iter().collect()
}

fn named_fields(body: &Group, types: &[String]) -> Result<Vec<Field>> {
    let mut it = body.stream().into_iter().peekable();
    let mut fields = Vec::new();
    while it.peek().is_some() {
        let skip = attributes(&mut it)?.skip;
        skip_visibility(&mut it);
        let name = match it.next() {
            Some(TokenTree::Ident(name)) => name,
            other => return err(other.as_ref(), "expected a field's name"),
        };
        it.next(); // the colon
        let ty = until(&mut it, &[',']);
        it.next();
        let generic = mentions(&ty, types);
        fields.push(Field { name: name.to_string(), span: name.span(), ty, generic, skip });
    }
    Ok(fields)
}

fn tuple_fields(body: &Group, types: &[String]) -> Result<Vec<Field>> {
    let mut it = body.stream().into_iter().peekable();
    let mut fields = Vec::new();
    while it.peek().is_some() {
        let skip = attributes(&mut it)?.skip;
        skip_visibility(&mut it);
        let span = it.peek().map_or(body.span(), TokenTree::span);
        let ty = until(&mut it, &[',']);
        it.next();
        let generic = mentions(&ty, types);
        fields.push(Field { name: fields.len().to_string(), span, ty, generic, skip });
    }
    Ok(fields)
}

/// Takes tokens up to one of `ends` that is not inside angle brackets.
fn until(it: &mut Tokens, ends: &[char]) -> TokenStream {
    let mut out = Vec::new();
    let mut depth = 0;
    let mut arrow = false; // the `-` of `->` was just read
    while let Some(t) = it.peek() {
        if depth == 0 && !arrow && ends.iter().any(|c| is_punct(t, *c)) {
            break;
        }
        match t {
            TokenTree::Punct(p) if p.as_char() == '<' => depth += 1,
            TokenTree::Punct(p) if p.as_char() == '>' && !arrow => depth -= 1,
            _ => {}
        }
        arrow = matches!(t, TokenTree::Punct(p) if p.as_char() == '-' && p.spacing() == Spacing::Joint);
        out.extend(it.next());
    }
    out.into_iter().collect()
}

fn mentions(ty: &TokenStream, names: &[String]) -> bool {
    ty.clone().into_iter().any(|t| match t {
        TokenTree::Group(g) => mentions(&g.stream(), names),
        t => names.contains(&t.to_string()),
    })
}

fn is_punct(t: &TokenTree, c: char) -> bool {
    matches!(t, TokenTree::Punct(p) if p.as_char() == c)
}

fn comma() -> TokenTree {
    TokenTree::Punct(proc_macro::Punct::new(',', Spacing::Alone))
}

fn err<T>(at: Option<&TokenTree>, message: &str) -> Result<T> {
    Err((at.map_or_else(Span::call_site, TokenTree::span), message.to_string()))
}
